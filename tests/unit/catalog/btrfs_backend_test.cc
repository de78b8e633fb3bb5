// The backend of subvolumes asks the mounter only for what is safe. tests/rpc/calls/btrfs_pool_test.cc has a real
// btrfs.
#include "plugin/backends/btrfs/btrfs_backend.h"

#include <filesystem>
#include <fstream>

#include "tests/fakes/fake_mounter.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

class BtrfsBackendTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> BackendIn(const std::string& directory) {
    const PoolConfig pool = {.name = "sub", .kind = BackendKind::kBtrfs, .own_keys = {{"quota", "advisory"}}};
    return BtrfsBackendType().make(pool, directory, {.mounter = mounter_});
  }

  TempDir dir_;
  FakeMounter mounter_;
  const std::string volume_ = "vol-" + std::string(32, 'a'), snapshot_ = "snap-" + std::string(32, 'b');
};

TEST_F(BtrfsBackendTest, AVolumeThatCannotBeLookedAtIsNotDeleted) {
  std::ofstream(dir_ / "file") << "no directory";
  const auto backend = BackendIn(dir_ / "file");
  EXPECT_FALSE(backend->CheckUnused(volume_).ok());
  EXPECT_FALSE(backend->Delete(volume_).ok());
  EXPECT_THAT(mounter_.Calls(), IsEmpty());
}

TEST_F(BtrfsBackendTest, AnUnfinishedSnapshotOfAGroupDoesNotExist) {
  const auto backend = BackendIn(dir_.path());
  std::filesystem::create_directory(dir_ / snapshot_);
  EXPECT_OK(backend->Locate(snapshot_));
  std::filesystem::create_directory(dir_ / (snapshot_ + ".making"));
  EXPECT_THAT(backend->Locate(snapshot_), FailsWith(StatusCode::kNotFound, "not finished"));
}

// A call that runs now may finish it.
TEST_F(BtrfsBackendTest, OnlyWhatIsLeftIsClearedAtTheStart) {
  const auto backend = BackendIn(dir_.path());
  std::filesystem::create_directory(dir_ / (snapshot_ + ".making"));
  std::filesystem::create_directory(dir_ / (volume_ + ".deleting"));
  std::filesystem::create_directory(dir_ / volume_);
  EXPECT_OK(backend->Reconcile());
  EXPECT_THAT(mounter_.Calls("RemoveSubvolume"),
              UnorderedElementsAre("RemoveSubvolume " + (dir_ / (snapshot_ + ".making")),
                                   "RemoveSubvolume " + (dir_ / (volume_ + ".deleting"))));
}

}  // namespace
}  // namespace mooring::testing
