#include "mounter/id_mappings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;

std::string Text(const std::vector<IdRange>& ranges) {
  std::string text;
  for (const IdRange& range : ranges) text += fmt::format("{}:{}:{} ", range.disk, range.mount, range.count);
  return text;
}

TEST(IdMappingsTest, EachMappingIsOfUsersGroupsOrBoth) {
  const auto parsed = ParseIdMappings("0:100000:65536 u:70000:1:1 g:80000:2:3 b:90000:4294967294:1");
  ASSERT_OK(parsed);
  EXPECT_EQ(Text(parsed->users), "0:100000:65536 70000:1:1 90000:4294967294:1 ");
  EXPECT_EQ(Text(parsed->groups), "0:100000:65536 80000:2:3 90000:4294967294:1 ");
}

TEST(IdMappingsTest, AnotherFormIsRefused) {
  for (const char* text : {"", " ", "0", "0:1", "0:1:2:3:4", "x:0:1:1", "b:0:1:0", "b:0:-1:5", "b:0:1:x", "b::1:1",
                           "0:1:1  5:5:1", "0:1:1 ", "b:0:1:4294967296", "0:1:1,5:5:1", "/proc/1/ns/user"}) {
    EXPECT_THAT(ParseIdMappings(text), FailsWith(StatusCode::kInvalidArgument, "write [u|g|b:]DISK:MOUNT:COUNT"))
        << text;
  }
}

TEST(IdMappingsTest, MappingsThatTheKernelRefusesAreRefused) {
  std::string many = "0:1000:1";
  for (int i = 1; i < 101; ++i) many += fmt::format(" {0}:{1}:1", i, 1000 + i);
  for (const std::string text :
       {"0:100:5 4:200:5", "4:200:5 0:100:5", "0:100:5 10:104:5", "0:100:5 0:100:5", "u:0:100:5 b:3:300:1",
        "4294967295:0:1", "0:4294967295:1", "5:0:4294967291", many.c_str()}) {
    EXPECT_THAT(ParseIdMappings(text), FailsWith(StatusCode::kInvalidArgument, "mappings overlap, go beyond")) << text;
  }
  for (const char* text : {"0:100:5 5:105:5", "u:0:100:5 g:0:100:5", "4294967294:0:1", "0:1:4294967294"}) {
    EXPECT_OK(ParseIdMappings(text)) << text;
  }
}

// The kernel refuses such a mount, and older ones let nobody write to it.
TEST(IdMappingsTest, UsersOrGroupsAloneAreRefused) {
  EXPECT_THAT(ParseIdMappings("u:0:100000:65536"), FailsWith(StatusCode::kInvalidArgument, "it maps users alone"));
  EXPECT_THAT(ParseIdMappings("g:0:100000:65536"), FailsWith(StatusCode::kInvalidArgument, "it maps groups alone"));
}

TEST(IdMappingsTest, TasksAreNoUsersOfTheHost) {
  EXPECT_OK(CheckIdMapOfTasks("b:0:65536:65536"));
  for (const char* text : {"b:0:0:1", "b:0:65535:1", "u:0:1000:1 g:0:100000:1", "u:0:100000:1 g:0:1000:1"}) {
    EXPECT_THAT(CheckIdMapOfTasks(text), FailsWith(StatusCode::kInvalidArgument, "from 65536 on")) << text;
  }
  EXPECT_THAT(CheckIdMapOfTasks("/proc/1/ns/user"), FailsWith(StatusCode::kInvalidArgument, "write [u|g|b:]"));
}

}  // namespace
}  // namespace mooring::testing
