// Bad paths: malformed paths, symbolic links, and paths with other files.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

std::vector<std::string> MalformedPaths() {
  std::string deep;
  for (int i = 0; i < 2100; ++i) deep += "/x";
  return {"relative/path",
          "./x",
          "../x",
          "/tmp/../etc",
          "/..",
          "/tmp/./x",
          "/",
          "//",
          std::string("/tmp/a\0b", 8),
          "/tmp/a\nb",
          "/tmp/\x1B[2J",
          "/" + std::string(300, 'x'),
          "/" + std::string(5000, 'x'),
          deep};
}

class BadPath : public RpcTest, public ::testing::WithParamInterface<bool> {
 protected:
  VolumeCapability Use() const { return GetParam() ? Block() : Mount(); }

  void SetUp() override {
    RpcTest::SetUp();
    id_ = Created(Use());
    staging_ = Staging(id_);
    target_ = Target("a");
  }

  void Stage() { ASSERT_OK(driver().Stage(id_, staging_, Use())); }
  NodePublishVolumeRequest Publishing(const std::string& target, bool read_only = false) const {
    return PublishRequest(id_, staging_, target, Use(), read_only);
  }

  std::string id_, staging_, target_;
};

INSTANTIATE_TEST_SUITE_P(Volumes, BadPath, ::testing::Values(false, true), MountOrBlock);

TEST_P(BadPath, MalformedPathsAreInvalidArguments) {
  Stage();
  for (const std::string& path : MalformedPaths()) {
    SCOPED_TRACE(path.substr(0, 40));
    const auto refused = [&](auto call, const std::string& field) {
      ExpectRefused(call, Code::kInvalidArgument, field);
    };
    refused(StageRequest(id_, path, Use()), "staging_target_path");
    refused([&] { return driver().Unstage(id_, path); }, "staging_target_path");
    refused(Publishing(path), "target_path");
    refused(PublishRequest(id_, path, target_, Use()), "staging_target_path");
    refused([&] { return driver().Unpublish(id_, path); }, "target_path");
    ExpectRefused([&] { return driver().Stats(id_, path); }, Code::kNotFound, "volume_path");
    ExpectRefused([&] { return driver().NodeExpand(id_, path); }, Code::kNotFound, "volume_path");
  }
  ExpectRefused(PublishRequest(id_, staging_, staging_, Use()), Code::kInvalidArgument, "both");
}

TEST_P(BadPath, ExtraSlashesAreIgnored) {
  ASSERT_OK(driver().Stage(id_, staging_ + "//", Use()));
  ASSERT_OK(driver().Publish(id_, "/" + staging_,
                             dir() / "csi/per-alloc//a/v///" + fs::path(target_).filename().string(), Use()));
  EXPECT_TRUE(MountAt(target_));
  ASSERT_OK(driver().Unpublish(id_, target_ + "/"));
  EXPECT_FALSE(fs::exists(target_));
}

TEST_P(BadPath, SymbolicLinksAreNotFollowed) {
  Stage();
  const std::string real = MakeDirectories("real");
  fs::create_symlink(real, dir() / "link");
  fs::create_symlink(dir() / "nowhere", dir() / "dangling");
  const auto refused = [&](auto call) { ExpectRefused(call, Code::kFailedPrecondition, "symbolic link"); };
  refused(Publishing(dir() / "link/target"));
  refused(StageRequest(id_, dir() / "link/staging", Use()));
  refused([&] { return driver().Unpublish(id_, dir() / "link/target"); });
  refused([&] { return driver().Unpublish(id_, dir() / "link"); });
  refused([&] { return driver().Unpublish(id_, dir() / "dangling"); });
  for (const char* link : {"link", "dangling"}) {
    ExpectRefused(Publishing(dir() / link), Code::kFailedPrecondition, dir() / link);
    ExpectRefused(StageRequest(id_, dir() / link, Use()), Code::kFailedPrecondition, dir() / link);
  }
  fs::remove(dir() / "link");
  fs::remove(dir() / "dangling");
}

TEST_P(BadPath, PublishKeepsOtherFilesAtTheTarget) {
  Stage();
  const std::string parent = MakeDirectories("targets") + "/";
  std::ofstream(parent + "full-file") << "data";
  std::ofstream(parent + "empty-file").close();
  fs::create_directory(parent + "empty-directory");
  fs::create_directories(parent + "full-directory/x");
  ASSERT_EQ(::mkfifo((parent + "fifo").c_str(), 0600), 0);
  MountTmpfs(parent + "mount");
  std::vector<std::string> bad = {"full-file", "full-directory", "fifo", "mount",
                                  GetParam() ? "empty-directory" : "empty-file"};
  for (const std::string& name : bad) {
    SCOPED_TRACE(name);
    // A read-only block target has a loop device of its own, which a refusal must not leave.
    for (const bool read_only : {false, true}) {
      ExpectRefused(Publishing(parent + name, read_only), Code::kFailedPrecondition, parent + name);
    }
  }
  for (const char* name : {"full-file", "full-directory", "fifo", "mount"}) {
    SCOPED_TRACE(name);
    ExpectRefused([&] { return driver().Unpublish(id_, parent + name); }, Code::kFailedPrecondition, parent + name);
  }
  EXPECT_OK(driver().Publish(id_, staging_, parent + (GetParam() ? "empty-file" : "empty-directory"), Use()));
}

TEST_P(BadPath, TargetOfAnotherVolumeIsRefused) {
  Stage();
  const std::string other = Published(target_, Use());
  ExpectRefused([&] { return driver().Unpublish(id_, target_); }, Code::kFailedPrecondition, other);
  for (const bool read_only : {false, true}) {
    ExpectRefused(Publishing(target_, read_only), Code::kFailedPrecondition, other);
  }
}

TEST_P(BadPath, StageKeepsOtherFilesAtTheStagingPath) {
  const std::string parent = MakeDirectories("stagings") + "/";
  std::ofstream(parent + "file").close();
  fs::create_directories(parent + "full-directory/x");
  MountTmpfs(parent + "mount");
  std::vector<std::string> bad = {"missing", "file", "missing/below", "mount"};
  if (!GetParam()) bad.push_back("full-directory");  // a block volume mounts nothing there
  for (const std::string& name : bad) {
    SCOPED_TRACE(name);
    ExpectRefused(StageRequest(id_, parent + name, Use()), Code::kFailedPrecondition, parent + name);
  }
  ExpectRefused([&] { return driver().Unstage(id_, parent + "mount"); }, Code::kFailedPrecondition,
                "no volume of this driver");
}

TEST_P(BadPath, StagingPathOfAnotherVolumeIsRefused) {
  const std::string other = Created(Use());
  ASSERT_OK(driver().Stage(other, staging_, Use()));
  ExpectRefused(StageRequest(id_, staging_, Use()), Code::kFailedPrecondition, other);
  ExpectRefused([&] { return driver().Unstage(id_, staging_); }, Code::kFailedPrecondition, other);
}

// A path may have all bytes except NUL and control characters. mountinfo writes a blank as \040.
TEST_P(BadPath, OddPathsWork) {
  Stage();
  for (const char* name :
       {"with blank", "back\\slash", "quo'te\"", "größe", "[0]", "a,b=c:d", "#hash", "-rf", "%s%n"}) {
    SCOPED_TRACE(name);
    const std::string path = MakeDirectories(std::string("odd ") + name) + "/" + name;
    ASSERT_OK(driver().Publish(id_, staging_, path, Use()));
    EXPECT_TRUE(MountAt(path));
    EXPECT_OK(driver().Stats(id_, path));
    EXPECT_OK(driver().Unpublish(id_, path));
    EXPECT_FALSE(MountAt(path));
  }
}

TEST_P(BadPath, LongPathWorks) {
  Stage();
  const std::string parent = MakeDirectories(std::string(255, 'a') + "/" + std::string(255, 'b') + "/" +
                                             std::string(255, 'c') + "/" + std::string(255, 'd'));
  const std::string path = parent + "/" + std::string(255, 'e');
  ASSERT_OK(driver().Publish(id_, staging_, path, Use()));
  EXPECT_TRUE(MountAt(path));
  EXPECT_OK(driver().Unpublish(id_, path));
}

}  // namespace
}  // namespace mooring::testing
