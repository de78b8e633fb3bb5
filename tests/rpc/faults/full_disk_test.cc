// A full disk below the state directory.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

// The state directory is on a filesystem of 64 MiB.
class FullDisk : public RpcTest {
 protected:
  void SetUp() override {
    MountTmpfs(state_dir(), "size=64m,mode=700");
    RpcTest::SetUp();
  }

  // Writes three times, because a filesystem that delays allocation has some space left after a large write has failed.
  void Fill() {
    const std::string ballast = state_dir() + "/ballast";
    Shell("for n in 1 2 3; do cat /dev/zero >>" + ballast + " 2>/dev/null; sync -f " + ballast + "; done");
  }
  void ExpectDeleteFreesSpace(const std::string& id) {
    EXPECT_OK(driver().Delete(id));
    EXPECT_OK(driver().Delete(Created(Block(), kMiB))) << "there is space again";
    FreeSpace();
  }
  void FreeSpace() { fs::remove(state_dir() + "/ballast"); }

  // Returns a published volume with data.
  std::string Filled(const VolumeCapability& capability) {
    const std::string id = Created(capability, 20 * kMiB);
    const std::string target = Target("a", id);
    StageAndPublish(id, target, capability);
    const std::string file = capability.has_block() ? target : target + "/file";
    EXPECT_EQ(Shell("head -c 8M /dev/urandom | dd of=" + file + " conv=notrunc,fsync status=none"), 0);
    return id;
  }
};

TEST_F(FullDisk, VolumeLargerThanTheFreeSpaceIsOutOfRange) {
  const std::string id = Created(Mount(), 32 * kMiB);
  ExpectRefused(CreateRequest("new", Mount(), 100 * kMiB), Code::kOutOfRange, "left");
  ExpectRefused([&] { return driver().Grow(id, 200 * kMiB); }, Code::kOutOfRange, "left");
}

TEST_F(FullDisk, FailedCreateLeavesTheNameFree) {
  Fill();
  const auto refused = driver().Create("new", Mount(), 32 * kMiB);
  EXPECT_THAT(refused.status.code(), AnyOf(Code::kOutOfRange, Code::kResourceExhausted));
  FreeSpace();
  EXPECT_OK(driver().Create("new", Mount(), 48 * kMiB)) << "another size: there is no record of the first call";
}

TEST_F(FullDisk, FailedStageLeavesTheVolumeUnchanged) {
  const std::string id = Created(Mount(), 48 * kMiB);
  const std::string staging = Staging(id);
  Fill();
  ExpectRefused(StageRequest(id, staging), Code::kResourceExhausted, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(state_dir() + "/volumes"), fs::directory_iterator()), 1);
  FreeSpace();
  EXPECT_OK(driver().Stage(id, staging));
}

// A volume that cannot be unstaged cannot be deleted, and then its space is never freed.
TEST_F(FullDisk, UnpublishUnstageAndDeleteStillWork) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Created(capability, 20 * kMiB);
    StageAndPublish(id, Target("a"), capability);
    Fill();
    UnpublishAndUnstage(id, Target("a"));
    ExpectNoLoops();
    // An image without data frees no space, so the record may stay.
    const auto deleted = driver().Delete(id);
    FreeSpace();
    if (!deleted.status.ok()) {
      EXPECT_THAT(deleted, FailsWith(Code::kResourceExhausted, "make room"));
      EXPECT_OK(driver().Delete(id));
    }
  }
}

// The records of a shared pool lie in the pool.
class FullSharedPool : public RpcTest {
 protected:
  void SetUp() override {
    MountTmpfs(pool_, "size=8m,mode=700");
    AddFlags({"--pool", "name=nfs,backend=image,shared=true,path=" + pool_});
    RpcTest::SetUp();
  }

  const std::string pool_ = dir() / "pool";
};

TEST_F(FullSharedPool, TakesPublicationsAndDeletions) {
  const std::string id = Created(CreateRequest("v", Block(), kMiB, {{"pool", "nfs"}}));
  Shell("cat /dev/zero >" + pool_ + "/ballast 2>/dev/null");
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(driver().Attach(id, kNode, Block()));
    EXPECT_OK(driver().Detach(id, kNode));
  }
  EXPECT_EQ(fs::space(pool_).available, 0U);
  EXPECT_OK(driver().Delete(id));
}

// The disk is filled to the last byte after the last process has ended.
class StartOnAFullDisk : public FullDisk, public ::testing::WithParamInterface<std::pair<const char*, int>> {
 protected:
  void SetUp() override {
    const std::string disk = elsewhere_ / "disk";
    const bool ext4 = std::string(GetParam().first) == "ext4";
    if (!ext4) return FullDisk::SetUp();
    fs::create_directories(state_dir());
    ASSERT_EQ(Shell("truncate -s 96M " + disk + " && mkfs.ext4 -q -m 0 -b 4096 -N 1000 " + disk), 0);
    ASSERT_EQ(Shell("mount -o loop " + disk + " " + state_dir()), 0);
    AllowMount(state_dir());
    RpcTest::SetUp();
  }

  void EndFillAndStart() {
    Fill();
    driver().Disconnect();
    plugin().End(GetParam().second);
    Fill();
    Start();
  }

 private:
  TempDir elsewhere_;  // outside of the test's directory, so that its loop device is not counted
};

INSTANTIATE_TEST_SUITE_P(Ended, StartOnAFullDisk,
                         ::testing::Values(std::pair("tmpfs", SIGTERM), std::pair("tmpfs", SIGKILL),
                                           std::pair("ext4", SIGTERM), std::pair("ext4", SIGKILL)),
                         [](const auto& ended) {
                           return std::string(ended.param.first) + (ended.param.second == SIGTERM ? "_Term" : "_Kill");
                         });

TEST_P(StartOnAFullDisk, UnpublishUnstageAndDeleteFreeSpace) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Filled(capability);
    EndFillAndStart();
    UnpublishAndUnstage(id, Target("a", id));
    ExpectNoLoops();
    EndFillAndStart();
    ExpectDeleteFreesSpace(id);
    Restart(SIGTERM);  // deletes old records that the full disk has kept
  }
}

TEST_P(StartOnAFullDisk, DeleteOfAnUnusedVolumeFreesSpace) {
  const std::string id = Filled(Mount());
  UnpublishAndUnstage(id, Target("a", id));
  ExpectNoLoops();
  EndFillAndStart();
  ExpectDeleteFreesSpace(id);
}

// The records of the boot before are void. The full disk has no space to store that, or for the files of SQLite.
TEST_F(FullDisk, RecordsStayInMemoryAfterAReboot) {
  const std::string id = Filled(Mount());
  plugin().Terminate();
  Rows(state_dir() + "/node.db", "UPDATE boot SET id = 'the one before'");
  Fill();
  Start();
  EXPECT_THAT(plugin().Log(), HasSubstr("kept in memory"));
  UnpublishAndUnstage(id, Target("a", id));
  ExpectNoLoops();
  EXPECT_OK(driver().Delete(id));
  FreeSpace();
  Restart(SIGTERM);
}

TEST_F(FullDisk, FailedPublishLeavesNoMount) {
  const std::string id = Created(Mount(), 20 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id)));
  Fill();
  const auto answer = driver().Publish(id, Staging(id), Target("a"));
  if (!answer.status.ok()) {  // the log of the database may have space left
    EXPECT_EQ(answer.status.code(), Code::kResourceExhausted) << answer.status;
    EXPECT_FALSE(MountAt(Target("a")));
    EXPECT_FALSE(fs::exists(Target("a")));
  }
  FreeSpace();
  EXPECT_OK(driver().Publish(id, Staging(id), Target("a")));
}

}  // namespace
}  // namespace mooring::testing
