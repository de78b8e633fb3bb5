#include "base/file/path.h"

#include <climits>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(NormalisePathTest, ExtraSlashesAreRemoved) {
  EXPECT_EQ(NormalisePath("path", "/a").value(), "/a");
  EXPECT_EQ(NormalisePath("path", "//a///b//").value(), "/a/b");
  EXPECT_EQ(NormalisePath("path", "/vol[0]/ä é/...").value(), "/vol[0]/ä é/...");
  EXPECT_EQ(NormalisePath("path", "/..a/.b/c..").value(), "/..a/.b/c..");
}

TEST(NormalisePathTest, OtherPathsAreRefused) {
  for (const char* path : {"a", "a/b", "./a", "../a", "~", "/.", "/..", "/a/..", "/a/../b", "/./a", "/a/.", "C:\\a"}) {
    EXPECT_THAT(NormalisePath("target_path", path), FailsWith(StatusCode::kInvalidArgument, "target_path")) << path;
  }
  EXPECT_THAT(NormalisePath("target_path", ""), FailsWith(StatusCode::kInvalidArgument, "target_path is missing"));
  EXPECT_THAT(NormalisePath("target_path", "/"), FailsWith(StatusCode::kInvalidArgument, "root directory"));
  EXPECT_THAT(NormalisePath("target_path", "///"), FailsWith(StatusCode::kInvalidArgument, "root directory"));
}

TEST(NormalisePathTest, ControlCharactersAreRefused) {
  for (const std::string& bad : {std::string("\n"), std::string("\0", 1), std::string("\t"), std::string("\x1b"),
                                 std::string("\x7f"), std::string("\x01")}) {
    const absl::Status status = NormalisePath("path", "/a" + bad + "b").status();
    EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument, "control character"));
    EXPECT_EQ(Message(status).find(bad), std::string::npos);
  }
}

TEST(NormalisePathTest, AcceptsTheMaximumLengths) {
  EXPECT_OK(NormalisePath("path", "/" + std::string(NAME_MAX, 'n')));
  EXPECT_THAT(NormalisePath("path", "/" + std::string(NAME_MAX + 1, 'n')),
              FailsWith(StatusCode::kInvalidArgument, "component of 256 bytes"));
  std::string longest;
  while (longest.size() < PATH_MAX - 1) longest += "/a";
  longest.resize(PATH_MAX - 1);
  EXPECT_OK(NormalisePath("path", longest));
  EXPECT_THAT(NormalisePath("path", longest + "a"), FailsWith(StatusCode::kInvalidArgument, "4096 bytes long"));
  EXPECT_THAT(NormalisePath("path", std::string(1000000, '/')), FailsWith(StatusCode::kInvalidArgument, "1000000"));
}

TEST(IsBelowTest, ComparesComponents) {
  EXPECT_TRUE(IsBelow("/a", "/a"));
  EXPECT_TRUE(IsBelow("/a/b", "/a"));
  EXPECT_TRUE(IsBelow("/a/b/c", "/a"));
  EXPECT_FALSE(IsBelow("/ab", "/a"));
  EXPECT_FALSE(IsBelow("/a", "/a/b"));
  EXPECT_FALSE(IsBelow("/b/a", "/a"));
  EXPECT_TRUE(IsBelow("/a", "/"));
  EXPECT_TRUE(IsBelow("/", "/"));
}

TEST(PathPartsTest, ParentAndName) {
  EXPECT_EQ(ParentOf("/a/b"), "/a");
  EXPECT_EQ(ParentOf("/a"), "/");
  EXPECT_EQ(NameOf("/a/b"), "b");
  EXPECT_EQ(NameOf("/a"), "a");
}

}  // namespace
}  // namespace mooring::testing
