// Directories without and with a quota. tests/kernel/quota and tests/vm have filesystems that enforce limits.
#include "plugin/backends/directory/directory_backend.h"

#include <filesystem>

#include "mounter/quota/project_quota.h"
#include "plugin/backends/pools.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_size.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

// Removes and limits real directories.
class Trees final : public FakeMounter {
 public:
  absl::Status RemoveTree(const std::string& directory) override {
    MOORING_RETURN_IF_ERROR(FakeMounter::RemoveTree(directory));
    std::filesystem::remove_all(directory);
    return absl::OkStatus();
  }
  absl::Status LimitDirectory(const std::string& directory, std::uint64_t bytes) override {
    EXPECT_TRUE(std::filesystem::is_directory(directory)) << directory;
    EXPECT_FALSE(std::filesystem::exists(visible)) << "it is visible before it has its limit";
    return FakeMounter::LimitDirectory(directory, bytes);
  }

  std::string visible = "/nowhere";
};

class DirectoryBackendTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> BackendWith(const std::string& quota) {
    return DirectoryBackendType().make(PoolWith(quota), dir_.path(), {.mounter = mounter_});
  }
  PoolConfig PoolWith(const std::string& quota) const {
    PoolConfig pool = {.name = "dirs", .kind = BackendKind::kDirectory, .path = dir_.path()};
    if (!quota.empty()) pool.own_keys["quota"] = quota;
    return pool;
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(dir_ / name); }
  void Make(const std::string& name) const { std::filesystem::create_directories(dir_ / name); }

  TempDir dir_;
  Trees mounter_;
  const std::string volume_ = "vol-" + std::string(32, 'a'), making_ = volume_ + ".making";
};

// An unfinished one stays even if it is empty, because another plugin may be about to fill it with a copy. Its record
// tells.
TEST_F(DirectoryBackendTest, TheStartRemovesDeletedVolumes) {
  for (const char* quota : {"", "advisory", "enforced"}) {
    const std::string other = "vol-" + std::string(32, 'b'), deleting = "vol-" + std::string(32, 'c') + ".deleting";
    for (const std::string& name : {making_, other, deleting + "/below", std::string("own.making")}) Make(name);
    const auto ids = BackendWith(quota)->Reconcile();
    ASSERT_OK(ids);
    EXPECT_EQ(*ids, std::vector({volume_, other}));
    EXPECT_TRUE(Exists(making_));
    EXPECT_FALSE(Exists(deleting));
    EXPECT_TRUE(Exists(other));
    EXPECT_TRUE(Exists("own.making"));
  }
}

TEST_F(DirectoryBackendTest, AVolumeHasItsLimitBeforeItsName) {
  const auto backend = BackendWith("enforced");
  mounter_.visible = dir_ / volume_;
  Make(making_ + "/left by a killed call");
  ASSERT_OK(backend->Create({.id = volume_, .bytes = 8 * kMiB}));
  EXPECT_THAT(mounter_.Calls(),
              ElementsAre("RemoveTree " + (dir_ / making_), "LimitDirectory " + (dir_ / making_) + " 8388608"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / volume_));
  EXPECT_FALSE(Exists(making_));
}

TEST_F(DirectoryBackendTest, AVolumeWithoutALimitIsNotMade) {
  const auto backend = BackendWith("enforced");
  mounter_.Fail("LimitDirectory", Aborted("the project is in use"));
  EXPECT_THAT(backend->Create({.id = volume_, .bytes = kMiB}), FailsWith(StatusCode::kAborted, "in use"));
  EXPECT_FALSE(Exists(making_));
  EXPECT_FALSE(Exists(volume_));
}

TEST_F(DirectoryBackendTest, ARepeatedCreationAndTheStartSetTheLimitAgain) {
  const auto backend = BackendWith("enforced");
  Make(volume_);
  EXPECT_OK(backend->Create({.id = volume_, .bytes = kMiB}));
  EXPECT_OK(backend->HoldToSize(volume_, 2 * kMiB));
  EXPECT_THAT(mounter_.Calls(), ElementsAre("LimitDirectory " + (dir_ / volume_) + " 1048576",
                                            "LimitDirectory " + (dir_ / volume_) + " 2097152"));
}

TEST_F(DirectoryBackendTest, WithoutAnEnforcedQuotaNothingIsLimited) {
  for (const char* quota : {"", "advisory"}) {
    const auto backend = BackendWith(quota);
    EXPECT_OK(backend->Create({.id = volume_, .bytes = kMiB}));
    EXPECT_OK(backend->HoldToSize(volume_, kMiB));
    EXPECT_EQ(backend->Locate(volume_)->problem, "");
    EXPECT_EQ(backend->Grow(volume_, 2 * kMiB).ok(), *quota != '\0');
    EXPECT_OK(backend->Delete(volume_));
    EXPECT_THAT(mounter_.Calls("LimitDirectory"), ::testing::IsEmpty());
    EXPECT_FALSE(Exists(volume_));
  }
}

// The directory of the test is on a filesystem whose figures are those of the whole.
TEST_F(DirectoryBackendTest, ALostLimitIsAProblemOfTheVolume) {
  const auto backend = BackendWith("enforced");
  Make(volume_);
  const auto found = backend->Locate(volume_);
  ASSERT_OK(found);
  EXPECT_FALSE(found->is_limited);
  EXPECT_THAT(found->problem, HasSubstr("has lost its limit"));
}

TEST_F(DirectoryBackendTest, AVolumeGrowsByItsLimitAndNotBeyondTheFilesystem) {
  const auto backend = BackendWith("enforced");
  Make(volume_);
  EXPECT_OK(backend->Grow(volume_, 4 * kMiB));
  EXPECT_THAT(backend->Grow(volume_, std::uint64_t{1} << 60U), FailsWith(StatusCode::kOutOfRange, "whole filesystem"));
  EXPECT_THAT(mounter_.Calls(), ElementsAre("LimitDirectory " + (dir_ / volume_) + " 4194304"));
}

TEST_F(DirectoryBackendTest, ADeletionAlsoRemovesWhatAnInterruptedCreationLeft) {
  Make(volume_);
  Make(making_);
  EXPECT_OK(BackendWith("enforced")->Delete(volume_));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(DirectoryBackendTest, OnlyAPoolWithAQuotaHasVolumesThatGrow) {
  EXPECT_FALSE(TraitsOf(PoolWith("")).grows);
  EXPECT_TRUE(TraitsOf(PoolWith("advisory")).grows);
  EXPECT_FALSE(TraitsOf(PoolWith("advisory")).enforces_size);
  EXPECT_TRUE(TraitsOf(PoolWith("enforced")).grows);
  EXPECT_TRUE(TraitsOf(PoolWith("enforced")).enforces_size);
}

// A tmpfs, an overlay and a btrfs have no project quotas, and an ext4 or xfs has none by default.
TEST_F(DirectoryBackendTest, APoolThatCannotEnforceIsRefusedWhileItIsEmpty) {
  const auto check = [this](const std::string& quota, bool is_first_start = true) {
    PoolConfig pool = PoolWith(quota);
    pool.path += "/not/there/yet";
    return DirectoryBackendType().check_host(pool, is_first_start);
  };
  EXPECT_OK(check(""));
  EXPECT_OK(check("advisory"));
  const absl::Status refused = check("enforced");
  if (refused.ok()) GTEST_SKIP() << "the filesystem of " << dir_.path() << " enforces project quotas";
  EXPECT_THAT(refused, FailsWith(StatusCode::kFailedPrecondition, "project quotas"));
  EXPECT_THAT(refused, FailsWith(StatusCode::kFailedPrecondition, "quota=advisory"));
  // As where a disk is not mounted at a later start.
  EXPECT_THAT(check("enforced", false), FailsWith(StatusCode::kUnavailable, "if its disk is not mounted"));
  Make("not/there/yet");
  EXPECT_THAT(check("enforced", false), FailsWith(StatusCode::kUnavailable, "if its disk is not mounted"));
  Make("not/there/yet/" + volume_);
  for (const bool is_first_start : {true, false}) EXPECT_OK(check("enforced", is_first_start));
}

// Nothing is taken for gone, because the disk of the pool may have it.
TEST_F(DirectoryBackendTest, APoolThatIsAwayIsNeitherReadNorChanged) {
  PoolConfig pool = PoolWith("enforced");
  pool.away = "its disk is not mounted";
  const auto backend = DirectoryBackendType().make(pool, dir_.path(), {.mounter = mounter_});
  const auto is_away = FailsWith(StatusCode::kUnavailable, pool.away);
  EXPECT_THAT(backend->Create({.id = volume_, .bytes = kMiB}), is_away);
  EXPECT_THAT(backend->Copy({{.id = volume_, .source = dir_ / volume_, .bytes = kMiB}}), is_away);
  EXPECT_THAT(backend->Locate(volume_).status(), is_away);
  EXPECT_THAT(backend->Delete(volume_), is_away);
  EXPECT_THAT(backend->SetAside(volume_, "kept"), is_away);
  EXPECT_THAT(backend->Reconcile().status(), is_away);
  EXPECT_THAT(backend->Capacity().status(), is_away);
  EXPECT_THAT(mounter_.Calls(), ::testing::IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST(ProjectTest, TheNumberFollowsFromTheNameOfTheVolume) {
  const std::string id = "vol-0123456789abcdef0123456789abcdef";
  EXPECT_EQ(ProjectOf(id), kFirstProject | (0x456789abU & (kFirstProject - 1)));
  EXPECT_EQ(ProjectOf(id + ".making"), ProjectOf(id));
  EXPECT_EQ(ProjectOf(id + ".deleting"), ProjectOf(id));
  EXPECT_EQ(ProjectOf("vol-" + std::string(32, 'f')), kLastProject);
  EXPECT_EQ(ProjectOf("data"), 0U);
  EXPECT_EQ(ProjectOf("vol-short"), 0U);
}

}  // namespace
}  // namespace mooring::testing
