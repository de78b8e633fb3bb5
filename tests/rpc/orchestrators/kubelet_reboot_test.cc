// K28: after a reboot no mount and no loop device is left, but kubelet's directories and the plugin's state are. Stage
// and Publish come again for the same paths, no Unpublish or Unstage before.
#include <signal.h>

#include <filesystem>

#include "tests/rpc/orchestrators/kubelet_paths.h"
#include "tests/support/reboot.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

class KubeletReboot : public KubeletTest, public ::testing::WithParamInterface<bool> {
 protected:
  VolumeCapability Use() const { return GetParam() ? Block(kMultiWriter) : Mount("", kMultiWriter); }

  void Reboot() {
    plugin().Kill();
    ASSERT_NO_FATAL_FAILURE(mooring::testing::Reboot(dir().path()));
    ASSERT_TRUE(fs::exists(rw_)) << "the target of last time stands";
    Start();
  }

  void StageAndPublish() {
    ASSERT_OK(driver().Stage(id_, staging_, Use()));
    ASSERT_OK(driver().Publish(id_, staging_, rw_, Use()));
    ASSERT_OK(driver().Publish(id_, staging_, ro_, Use(), true));
  }

  std::string File(const std::string& target) const { return GetParam() ? target : target + "/file"; }

  void SetUp() override {
    KubeletTest::SetUp();
    id_ = Created(Use());
    staging_ = GetParam() ? BlockStaging("pvc-1") : GlobalMount(id_);
    rw_ = GetParam() ? BlockTarget("pvc-1", "uid-1") : PodTarget("uid-1", "pvc-1");
    ro_ = GetParam() ? BlockTarget("pvc-1", "uid-2") : PodTarget("uid-2", "pvc-1");
    StageAndPublish();
    ASSERT_EQ(TryWrite(File(rw_), "data"), 0);
  }

  std::string id_, staging_, rw_, ro_;
};

INSTANTIATE_TEST_SUITE_P(Volumes, KubeletReboot, ::testing::Values(false, true),
                         [](const auto& row) { return row.param ? "Block" : "Mount"; });

TEST_P(KubeletReboot, K28_StageAndPublishAgainOverWhatWasLeft) {
  Reboot();
  StageAndPublish();
  EXPECT_EQ(ReadFile(File(rw_)).substr(0, 4), "data");
  EXPECT_EQ(TryWrite(File(rw_), "more"), 0);
  EXPECT_EQ(TryWrite(File(ro_), "more"), GetParam() ? EPERM : EROFS);
  EXPECT_EQ(LoopsOver(Image(id_)).size(), 1U);
}

TEST_P(KubeletReboot, K28_TargetsOfLastTimeAreNotCounted) {
  Reboot();
  ASSERT_OK(driver().Stage(id_, staging_, Use()));
  EXPECT_OK(driver().Unstage(id_, staging_));
  EXPECT_OK(driver().Delete(id_));
}

TEST_P(KubeletReboot, K28_ASingleWriterIsNotHeldUpByATargetOfLastTime) {
  const VolumeCapability single = GetParam() ? Block(AccessMode::SINGLE_NODE_WRITER) : Mount();
  Reboot();
  ASSERT_OK(driver().Stage(id_, staging_, single));
  EXPECT_OK(driver().Publish(id_, staging_, rw_ + "-new", single));
}

TEST_P(KubeletReboot, K28_UnpublishOfATargetOfLastTimeRemovesIt) {
  Reboot();
  EXPECT_OK(driver().Unpublish(id_, rw_));
  EXPECT_FALSE(fs::exists(rw_));
  EXPECT_OK(driver().Unstage(id_, staging_));
}

// Whatever they say: paths and device numbers may stand for something else by now.
TEST_P(KubeletReboot, K28_RecordsOfAnotherBootAreNotBelieved) {
  plugin().Kill();
  Rows(state_dir() + "/node.db", "UPDATE boot SET id = 'another'");
  Start();
  EXPECT_THAT(Rows(state_dir() + "/node.db", "SELECT path FROM uses WHERE capability <> ''"), ::testing::IsEmpty());
  EXPECT_EQ(Rows(state_dir() + "/node.db", "SELECT path FROM uses WHERE path = '" + rw_ + "'").size(), 1U)
      << "the kernel still knows whose mount it is";
}

// The same boot id, but the mounts are gone: a container's mount namespace was made anew.
TEST_P(KubeletReboot, K28_RecordsOfMountsThatAreGoneAreForgotten) {
  Reboot();
  Rows(state_dir() + "/node.db",
       "INSERT INTO uses VALUES ('" + rw_ + "', '" + id_ + "', 1, 1, 0, 0, 0, 'mount', 'defaults', '', '', '')");
  Restart(SIGTERM);
  EXPECT_THAT(Rows(state_dir() + "/node.db", "SELECT * FROM uses"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace mooring::testing
