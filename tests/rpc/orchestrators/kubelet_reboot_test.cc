// K28: after a reboot there is no mount and no loop device. The directories of kubelet and the state of the plugin
// remain. Stage and Publish come again for the same paths, without Unpublish and Unstage before.
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/reboot.h"

namespace mooring::testing {
namespace {

class KubeletReboot : public RpcTest, public ::testing::WithParamInterface<bool> {
 protected:
  VolumeCapability Use() const { return GetParam() ? kSharedBlock : kSharedMount; }

  void Reboot() {
    plugin().Kill();
    ASSERT_NO_FATAL_FAILURE(mooring::testing::Reboot(dir().path()));
    ASSERT_TRUE(fs::exists(rw_)) << "the old target is missing";
    Start();
  }

  void SetUp() override {
    RpcTest::SetUp();
    id_ = Created(Use());
    staging_ = Staging(id_);
    rw_ = Target("uid-1");
    ASSERT_OK(driver().Stage(id_, staging_, Use()));
    ASSERT_OK(driver().Publish(id_, staging_, rw_, Use()));
    ASSERT_OK(driver().Publish(id_, staging_, Target("uid-2"), Use(), !Use().has_block()));
  }

  std::string id_, staging_, rw_;
};

INSTANTIATE_TEST_SUITE_P(Volumes, KubeletReboot, ::testing::Values(false, true), MountOrBlock);

TEST_P(KubeletReboot, K28_OldTargetsDoNotPreventDelete) {
  Reboot();
  ASSERT_OK(driver().Stage(id_, staging_, Use()));
  EXPECT_OK(driver().Unstage(id_, staging_));
  EXPECT_OK(driver().Delete(id_));
}

TEST_P(KubeletReboot, K28_OldTargetDoesNotBlockASingleWriter) {
  const VolumeCapability single = GetParam() ? Block(AccessMode::SINGLE_NODE_WRITER) : Mount();
  Reboot();
  ASSERT_OK(driver().Stage(id_, staging_, single));
  EXPECT_OK(driver().Publish(id_, staging_, rw_ + "-new", single));
}

TEST_P(KubeletReboot, K28_UnpublishRemovesAnOldTarget) {
  Reboot();
  EXPECT_OK(driver().Unpublish(id_, rw_));
  EXPECT_FALSE(fs::exists(rw_));
  EXPECT_OK(driver().Unstage(id_, staging_));
}

// Paths and device numbers may mean something else after a boot.
TEST_P(KubeletReboot, K28_RecordsOfAnotherBootAreIgnored) {
  plugin().Kill();
  Rows(state_dir() + "/node.db", "UPDATE boot SET id = 'another'");
  Start();
  EXPECT_THAT(Rows(state_dir() + "/node.db", "SELECT path FROM uses WHERE capability <> ''"), IsEmpty());
  EXPECT_EQ(Rows(state_dir() + "/node.db", "SELECT path FROM uses WHERE path = '" + rw_ + "'").size(), 1U)
      << "the mount shows its volume";
}

// The boot id is the same, but the mounts are gone, because the container has a new mount namespace.
TEST_P(KubeletReboot, K28_RecordsOfMountsThatAreGoneAreForgotten) {
  Reboot();
  Rows(state_dir() + "/node.db",
       "INSERT INTO uses VALUES ('" + rw_ + "', '" + id_ + "', 1, 1, 0, 0, 0, 'mount', 'defaults', '', '', '')");
  Restart(SIGTERM);
  EXPECT_THAT(Rows(state_dir() + "/node.db", "SELECT * FROM uses"), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing
