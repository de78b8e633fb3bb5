// The command line by which the plugin starts mooring-mounter, both ways; and the answers of the helper to requests of
// any form.
#include "mounter/helper/helper_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "mounter/helper/call_table.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/wire.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;

absl::StatusOr<HelperFlags> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "mooring-mounter");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return ParseHelperFlags(static_cast<int>(arguments.size()), pointers.data());
}

TEST(HelperFlagsTest, AllFlagsArrive) {
  const HelperFlags flags = {{.roots = {"/csi", "/a b"},
                              .sources = {"/state/volumes", "--x"},
                              .label_prefix = "mooring",
                              .forbidden_trees = {"/state", "/b c"},
                              .forbidden_places = {"/run/mooring"},
                              .volume_directories = {"/srv/dirs", "/a b/c"},
                              .device_links = {"/dev/disk/by-id/nvme-*", "/a b/[x]?"},
                              .fs_types = {"vfat", "ext2"},
                              .subvolume_pools = {"/srv/btrfs"},
                              .sized_pools = {"/srv/sized"},
                              .lvm_pools = {"fast", "fast/thin"},
                              .encrypted_pools = {"/srv/secret"},
                              .most_memory = 1ULL << 40U},
                             "debug",
                             "json"};
  const absl::StatusOr<HelperFlags> parsed = Parse(ArgumentsOf(flags));
  ASSERT_OK(parsed);
  EXPECT_THAT(parsed->policy.roots, ElementsAre("/csi", "/a b"));
  EXPECT_THAT(parsed->policy.sources, ElementsAre("/state/volumes", "--x"));
  EXPECT_EQ(parsed->policy.label_prefix, "mooring");
  EXPECT_THAT(parsed->policy.forbidden_trees, ElementsAre("/state", "/b c"));
  EXPECT_THAT(parsed->policy.forbidden_places, ElementsAre("/run/mooring"));
  EXPECT_THAT(parsed->policy.volume_directories, ElementsAre("/srv/dirs", "/a b/c"));
  EXPECT_THAT(parsed->policy.device_links, ElementsAre("/dev/disk/by-id/nvme-*", "/a b/[x]?"));
  EXPECT_THAT(parsed->policy.fs_types, ElementsAre("vfat", "ext2"));
  EXPECT_THAT(parsed->policy.subvolume_pools, ElementsAre("/srv/btrfs"));
  EXPECT_THAT(parsed->policy.sized_pools, ElementsAre("/srv/sized"));
  EXPECT_THAT(parsed->policy.lvm_pools, ElementsAre("fast", "fast/thin"));
  EXPECT_THAT(parsed->policy.encrypted_pools, ElementsAre("/srv/secret"));
  EXPECT_EQ(parsed->policy.most_memory, 1ULL << 40U);
  EXPECT_EQ(parsed->log_level, "debug");
  EXPECT_EQ(parsed->log_format, "json");
}

TEST(HelperFlagsTest, MissingFlagsAreRefused) {
  constexpr char kByHand[] = "use: mooring mount";
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"--mount-root", "/csi"},
                                             {"--label-prefix", "mooring"},
                                             {"--mount-root", "/csi", "--label-prefix", ""},
                                             {"--mount-root", "/csi", "--label-prefix", "m", "more"},
                                             {"mount", "/a", "/b"}}) {
    EXPECT_THAT(Parse(arguments), FailsWith(StatusCode::kInvalidArgument, kByHand));
  }
}

TEST(HelperFlagsTest, UnknownFlagsAndMissingValuesAreRefused) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"-x"}, {"--mount-root"}, {"--mount-root=/a", "--force"}}) {
    EXPECT_THAT(Parse(arguments), FailsWith(StatusCode::kInvalidArgument, "a flag of mooring-mounter"));
  }
}

class AnswerTest : public ::testing::Test {
 protected:
  absl::StatusCode Code(const pb::Request& request) {
    return static_cast<absl::StatusCode>(AnswerTo(request, fake_).code());
  }
  FakeMounter fake_;
};

TEST_F(AnswerTest, ARequestWithoutACallIsRefused) {
  const pb::Answer answer = AnswerTo(pb::Request(), fake_);
  EXPECT_EQ(static_cast<StatusCode>(answer.code()), StatusCode::kInvalidArgument);
  EXPECT_THAT(answer.message(), ::testing::HasSubstr("names no call"));
}

// The request of a call without a row in mounter/helper/call_table.h would be refused.
TEST_F(AnswerTest, EveryCallIsAnswered) {
  int calls = 0;
  for (unsigned field = 1; field < 128; ++field) {
    const unsigned tag = field << 3U | 2U;  // with a length; the empty value that follows is a text and a message
    const std::string bytes = {static_cast<char>(tag | 0x80U), static_cast<char>(tag >> 7U), '\0'};
    pb::Request request;
    ASSERT_TRUE(request.ParseFromString(bytes)) << field;
    if (request.call_case() == pb::Request::CALL_NOT_SET) continue;
    ++calls;
    EXPECT_THAT(AnswerTo(request, fake_).message(), ::testing::Not(::testing::HasSubstr("names no call"))) << field;
  }
  EXPECT_GE(calls, 21);
}

// A row names its field twice: with two numbers for one field, a request would run two calls.
TEST_F(AnswerTest, EachRowHasTheNumberOfItsArguments) {
  std::set<int> numbers;
  std::apply(
      [&](const auto&... row) {
        const auto check = [&](const auto& call) {
          pb::Request request;
          (request.*call.arguments)();
          EXPECT_EQ(request.call_case(), call.number) << call.handling.doing;
          EXPECT_TRUE(numbers.insert(call.number).second) << call.handling.doing;
        };
        (check(row), ...);
      },
      calls::kAll);
}

TEST_F(AnswerTest, EveryTextIsCheckedForLengthAndNul) {
  const std::string nul("/a\0b", 4);
  const std::string long_one(wire::kMostText + 1, 'x');
  for (const std::string& text : {nul, long_one}) {
    std::vector<pb::Request> requests(23);
    requests[0].set_find(text);
    requests[1].set_list(text);
    requests[2].set_stats(text);
    requests[3].set_find_loops(text);
    requests[4].set_probe(text);
    requests[5].set_health_problem(text);
    requests[6].mutable_format()->set_path(text);
    requests[7].mutable_format()->set_fs_type(text);
    requests[8].mutable_check()->set_path(text);
    requests[9].mutable_grow()->set_fs_type(text);
    requests[10].mutable_mount()->set_target(text);
    requests[11].mutable_bind()->set_source(text);
    requests[12].mutable_unmount()->set_target(text);
    requests[13].mutable_attach_loop()->set_backing_file(text);
    requests[14].mutable_detach_loop()->set_device(text);
    requests[15].mutable_resize_loop()->set_label(text);
    requests[16].mutable_mount()->set_source(text);
    requests[17].mutable_mount()->set_label(text);
    requests[18].mutable_mount()->set_fs_type(text);
    requests[19].mutable_mount()->add_options()->set_key(text);
    requests[20].mutable_mount()->add_options()->set_value(text);
    requests[21].mutable_bind()->set_target(text);
    requests[22].mutable_attach_loop()->set_label(text);
    for (const pb::Request& request : requests) {
      EXPECT_EQ(Code(request), StatusCode::kInvalidArgument) << request.call_case();
    }
  }
  EXPECT_THAT(fake_.Calls(), ::testing::IsEmpty());
  pb::Request longest;
  longest.set_find(std::string(wire::kMostText, 'x'));
  EXPECT_NE(Code(longest), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mooring::testing
