// The directories of the plugin are created and checked. tests/rpc/hostile/user_test.cc runs processes with --user.
#include "plugin/process/directories.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

class PoolDirectory : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<PoolConfig>> Prepare(const std::vector<std::string>& paths) {
    std::vector<PoolConfig> pools;
    for (const std::string& path : paths) {
      pools.push_back({.name = "p" + std::to_string(pools.size()), .kind = BackendKind::kDirectory, .path = path});
    }
    return Prepare(std::move(pools));
  }
  absl::StatusOr<std::vector<PoolConfig>> Prepare(std::vector<PoolConfig> pools) {
    Config config;
    config.state_dir = dir_ / "state";
    config.pools = std::move(pools);
    MOORING_ASSIGN_OR_RETURN(Config prepared, PrepareDirectories(std::move(config)));
    return std::move(prepared.pools);
  }
  TempDir dir_;
};

TEST_F(PoolDirectory, IsCreatedForThePluginOnly) {
  const auto pools = Prepare({dir_ / "a"});
  ASSERT_OK(pools);
  EXPECT_EQ(std::filesystem::status(dir_ / "a").permissions(), std::filesystem::perms::owner_all);
  EXPECT_FALSE(Prepare({dir_ / "no/parent"}).ok());
}

TEST_F(PoolDirectory, BecomesItsRealPath) {
  ASSERT_EQ(::mkdir((dir_ / "real").c_str(), 0755), 0);
  ASSERT_EQ(::symlink((dir_ / "real").c_str(), (dir_ / "link").c_str()), 0);
  const auto pools = Prepare({dir_ / "link"});
  ASSERT_OK(pools);
  EXPECT_EQ(pools->front().path, std::filesystem::canonical(dir_ / "real"));
}

// On a host whose mount is missing, a new directory would hide that.
TEST_F(PoolDirectory, OfASharedPoolIsNeverCreated) {
  const std::vector<PoolConfig> pools = {{.name = "nfs", .path = dir_ / "a", .shared = true}};
  EXPECT_THAT(Prepare(pools).status(), FailsWith(StatusCode::kFailedPrecondition, "is missing, and shared=true"));
  ASSERT_EQ(::mkdir((dir_ / "a").c_str(), 0700), 0);
  EXPECT_OK(Prepare(pools));
}

TEST_F(PoolDirectory, OthersMayNotWriteThere) {
  ASSERT_EQ(::mkdir((dir_ / "a").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((dir_ / "a/x").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((dir_ / "a").c_str(), 0777), 0);
  EXPECT_THAT(Prepare({dir_ / "a"}).status(), FailsWith(StatusCode::kFailedPrecondition, "pool p0: others may write"));
}

TEST_F(PoolDirectory, OnlyThePluginMayLinkDevicesAndTheDirectoryMayAppearLater) {
  const std::vector<PoolConfig> pools = {
      {.name = "disks", .kind = BackendKind::kDevice, .path = dir_ / "links", .own_keys = {{"match", "*"}}}};
  ASSERT_OK(Prepare(pools));
  ASSERT_EQ(::mkdir((dir_ / "links").c_str(), 0755), 0);
  ASSERT_OK(Prepare(pools));
  ASSERT_EQ(::chmod((dir_ / "links").c_str(), 0775), 0);
  EXPECT_THAT(Prepare(pools).status(), FailsWith(StatusCode::kFailedPrecondition, "pool disks: "));
}

TEST_F(PoolDirectory, DirectoriesOfPoolsDoNotOverlap) {
  EXPECT_THAT(Prepare({dir_ / "a", dir_ / "a"}).status(), FailsWith(StatusCode::kInvalidArgument, "give each its own"));
  EXPECT_THAT(Prepare({dir_ / "a", dir_ / "a/b"}).status(),
              FailsWith(StatusCode::kInvalidArgument, "give each its own"));
  EXPECT_OK(Prepare({dir_ / "a", dir_ / "ab"}));
}

// ---- the owner

constexpr uid_t kUser = 4242;
constexpr gid_t kGroup = 4240;

class DirectoryOwner : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root makes directories for another user";
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0711), 0);
    config_.state_dir = dir_ / "state";
    config_.user = {.uid = kUser, .gid = kGroup};
  }
  uid_t OwnerOf(const std::string& path) const {
    struct stat status = {};
    EXPECT_EQ(::lstat((dir_ / path).c_str(), &status), 0) << path;
    return status.st_uid;
  }
  void MakeRootsDirectory(const std::string& path) const { EXPECT_EQ(::mkdir((dir_ / path).c_str(), 0700), 0); }
  void MakeRootsFile(const std::string& path) const { std::ofstream(dir_ / path) << "root's"; }

  // The refusal ends with a command. Runs it.
  void ExpectRefusedAndRun(const std::string& command) {
    const absl::Status refused = PrepareDirectories(config_).status();
    ASSERT_THAT(refused, FailsWith(StatusCode::kFailedPrecondition, "and the plugin works as user 4242:4240"));
    ASSERT_THAT(Message(refused), EndsWith(", then run: " + command));
    ASSERT_EQ(::system(command.c_str()), 0);
  }

  TempDir dir_;
  Config config_;
};

TEST_F(DirectoryOwner, MakesMissingDirectoriesForTheUser) {
  config_.pools = {{.name = "images", .path = dir_ / "images"},
                   {.name = "trees", .kind = BackendKind::kDirectory, .path = dir_ / "trees"}};
  ASSERT_OK(PrepareDirectories(config_));
  for (const char* name : {"state", "images", "trees"}) EXPECT_EQ(OwnerOf(name), kUser) << name;
  ASSERT_OK(PrepareDirectories(config_)) << "the second start";
}

TEST_F(DirectoryOwner, RefusesRootsStateDirectoryUntilTheCommandWasRun) {
  MakeRootsDirectory("state");
  MakeRootsFile("state/catalog.db");
  ExpectRefusedAndRun("chown -R --from=0 4242:4240 " + dir_ / "state");
  EXPECT_EQ(OwnerOf("state/catalog.db"), kUser);
  EXPECT_OK(PrepareDirectories(config_));
}

TEST_F(DirectoryOwner, ChangesNothingWhenItRefuses) {
  MakeRootsDirectory("state");
  MakeRootsFile("state/catalog.db");
  EXPECT_FALSE(PrepareDirectories(config_).ok());
  for (const char* name : {"state", "state/catalog.db"}) EXPECT_EQ(OwnerOf(name), 0U) << name;
}

TEST_F(DirectoryOwner, RefusesARecordOfAnotherUser) {
  ASSERT_OK(PrepareDirectories(config_));
  MakeRootsFile("state/catalog.db");
  ExpectRefusedAndRun("chown -R --from=0 4242:4240 " + dir_ / "state");
  EXPECT_OK(PrepareDirectories(config_));
}

TEST_F(DirectoryOwner, LeavesFilesOfTasksOutOfTheCommand) {
  MakeRootsDirectory("state");
  MakeRootsDirectory("state/trees");
  MakeRootsDirectory("state/trees/volume");
  config_.pools = {{.name = "trees", .kind = BackendKind::kDirectory, .path = dir_ / "state/trees"}};
  const std::string state = dir_ / "state";
  ExpectRefusedAndRun("find " + state + " -samefile " + state +
                      "/trees -prune -o -user 0 -exec chown -h 4242:4240 {} +");
  ExpectRefusedAndRun("chown --from=0 4242:4240 " + state + "/trees");
  EXPECT_EQ(OwnerOf("state/trees/volume"), 0U);
  EXPECT_OK(PrepareDirectories(config_));
}

TEST_F(DirectoryOwner, QuotesThePathInTheCommand) {
  config_.state_dir = dir_ / "a state";
  MakeRootsDirectory("a state");
  ExpectRefusedAndRun("chown -R --from=0 4242:4240 '" + dir_ / "a state" + "'");
  EXPECT_OK(PrepareDirectories(config_));
}

TEST_F(DirectoryOwner, FollowsNoLinkThatTheUserCanHaveMade) {
  MakeRootsDirectory("target");
  MakeRootsDirectory("users");
  ASSERT_EQ(::chown((dir_ / "users").c_str(), kUser, kGroup), 0);
  ASSERT_EQ(::symlink((dir_ / "target").c_str(), (dir_ / "users/link").c_str()), 0);
  constexpr char kWhy[] = "leads through the symbolic link 'link', in a directory where others than root may write";
  for (const char* path : {"users/link", "users/link/new"}) {
    config_.pools = {{.name = "fast", .path = dir_ / path}};
    EXPECT_THAT(PrepareDirectories(config_).status(), FailsWith(StatusCode::kFailedPrecondition, kWhy)) << path;
  }
  EXPECT_EQ(OwnerOf("target"), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "target"));
}

}  // namespace
}  // namespace mooring::testing
