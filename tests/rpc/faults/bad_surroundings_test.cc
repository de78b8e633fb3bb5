// A full disk, missing tools, and images that somebody else has had in hand.
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class BadSurroundings : public RpcTest {
 protected:
  std::string Formatted(const VolumeCapability& capability = Mount()) {
    const std::string id = Created(capability);
    EXPECT_OK(driver().Stage(id, Staging(id), capability));
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
    return id;
  }

  void RefusedStage(const std::string& id, Code code, const std::string& piece,
                    const VolumeCapability& capability = Mount(),
                    const std::source_location& where = std::source_location::current()) {
    const std::string staging = Staging(id);
    ExpectRefused([&] { return driver().Stage(id, staging, capability); }, code, piece, where);
  }
};

TEST_F(BadSurroundings, MkfsThatIsMissingIsNamedWithItsPackage) {
  plugin().options().environment["PATH"] = "/nonexistent";
  Restart(SIGTERM);
  RefusedStage(Created(Mount("ext4")), Code::kFailedPrecondition, "e2fsprogs", Mount("ext4"));
  RefusedStage(Created(Mount("xfs"), kXfsBytes), Code::kFailedPrecondition, "xfsprogs", Mount("xfs"));
  EXPECT_OK(driver().Stage(Created(Block()), Staging("b"), Block())) << "needs no mkfs";
}

TEST_F(BadSurroundings, MkfsThatFailsIsQuoted) {
  plugin().options().environment["PATH"] = FailingMkfs();
  Restart(SIGTERM);
  const std::string id = Created();
  RefusedStage(id, Code::kInternal, "the disk is on fire");
  plugin().options().environment.clear();
  Restart(SIGTERM);
  EXPECT_OK(driver().Stage(id, Staging(id))) << "the volume is as good as before";
}

TEST_F(BadSurroundings, AnImageCutShortIsNeitherMountedNorFormatted) {
  for (const std::int64_t left : {kVolumeBytes / 2, std::int64_t{4096}, std::int64_t{0}}) {
    const std::string formatted = Formatted();
    ASSERT_EQ(::truncate(Image(formatted).c_str(), left), 0);
    RefusedStage(formatted, Code::kFailedPrecondition, "cut short");
    const std::string fresh = Created();
    ASSERT_EQ(::truncate(Image(fresh).c_str(), left), 0);
    RefusedStage(fresh, Code::kFailedPrecondition, "cut short");
    const std::string block = Created(Block());
    ASSERT_EQ(::truncate(Image(block).c_str(), left), 0);
    RefusedStage(block, Code::kFailedPrecondition, "cut short", Block());
  }
}

TEST_F(BadSurroundings, AnImageThatIsGoneIsNamed) {
  const std::string id = Formatted();
  const std::string kept = dir() / "kept";
  fs::rename(Image(id), kept);
  RefusedStage(id, Code::kInternal, Image(id));
  ExpectRefused([&] { return driver().Grow(id, 2 * kVolumeBytes); }, Code::kInternal, "put it back");
  fs::rename(kept, Image(id));
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(BadSurroundings, AnImageThatBecameSomethingElseIsNotFollowed) {
  const std::string id = Formatted();
  const std::string kept = dir() / "kept";
  fs::rename(Image(id), kept);
  fs::create_symlink(kept, Image(id));
  RefusedStage(id, Code::kInternal, "no regular file");
  fs::remove(Image(id));
  fs::rename(kept, Image(id));
}

TEST_F(BadSurroundings, ForeignContentIsNeitherMountedNorFormatted) {
  const std::string scratch = dir() / "scratch";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"head -c 2000000 /dev/urandom | dd of=IMAGE conv=notrunc status=none", "unknown data"},
      {"mkswap -q IMAGE 2>/dev/null", "swap"},
      {"mke2fs -q -F -t ext2 IMAGE", "ext2"},
      {"printf 'data at the end' | dd of=IMAGE bs=1 seek=67108000 conv=notrunc status=none", "unknown data"},
  };
  for (const auto& [command, found] : cases) {
    SCOPED_TRACE(command);
    const std::string id = Created();
    std::string line = command;
    line.replace(line.find("IMAGE"), 5, Image(id));
    ASSERT_EQ(Shell(line), 0);
    RefusedStage(id, Code::kFailedPrecondition, found);
    RefusedStage(id, Code::kFailedPrecondition, found, Mount("xfs"));
  }
}

// Of one partition, as DOS had them.
TEST_F(BadSurroundings, APartitionTableIsNeitherMountedNorFormatted) {
  const std::string id = Created();
  std::string sector(512, '\0');
  constexpr unsigned char kPartition[] = {0x80, 0, 1, 1, 0x83, 0xFE, 0x3F, 0, 0, 8, 0, 0, 0, 0, 1, 0};
  std::copy(std::begin(kPartition), std::end(kPartition), sector.begin() + 446);
  sector[510] = '\x55';
  sector[511] = '\xAA';
  ASSERT_EQ(TryWrite(Image(id), sector), 0);
  RefusedStage(id, Code::kFailedPrecondition, "dos partition table");
}

TEST_F(BadSurroundings, AnotherFilesystemThanAskedForIsNotFormattedOver) {
  const std::string id = Created(Mount("xfs"), kXfsBytes);
  ASSERT_EQ(Shell("mkfs.ext4 -q -F " + Image(id)), 0);
  RefusedStage(id, Code::kFailedPrecondition, "not formatted again", Mount("xfs"));
}

// ext4 leaves its first 1,024 bytes alone: room for the superblock of an xfs, and libblkid calls that ambivalent.
TEST_F(BadSurroundings, TwoFilesystemsAtOnceAreNeitherMountedNorFormatted) {
  const std::string id = Formatted();
  const std::string xfs = dir() / "xfs";
  ASSERT_EQ(Shell("truncate -s 320M " + xfs + " && mkfs.xfs -q " + xfs), 0);
  ASSERT_EQ(Shell("dd if=" + xfs + " of=" + Image(id) + " bs=512 count=1 conv=notrunc status=none"), 0);
  const std::string before = RunOutput("sha256sum " + Image(id));
  RefusedStage(id, Code::kFailedPrecondition, "signatures of several filesystems");
  RefusedStage(id, Code::kFailedPrecondition, "signatures of several filesystems", Mount("ext4"));
  EXPECT_EQ(RunOutput("sha256sum " + Image(id)), before);
}

TEST_F(BadSurroundings, AFilesystemWithErrorsThatCannotBeMendedIsNotMounted) {
  const std::string id = Formatted();
  // The root directory is gone: e2fsck -p gives up.
  ASSERT_EQ(Shell("debugfs -w -R 'clri <2>' " + Image(id) + " 2>/dev/null"), 0);
  ASSERT_EQ(Shell("debugfs -w -R 'ssv state 2' " + Image(id) + " 2>/dev/null"), 0);
  EXPECT_THAT(driver().Stage(id, Staging(id)), FailsWith(Code::kFailedPrecondition, "e2fsck -f"));
  EXPECT_FALSE(MountAt(Staging(id)));
  EXPECT_TRUE(LoopsHere().empty());
}

TEST_F(BadSurroundings, SmallErrorsAreMendedOnTheWay) {
  const std::string id = Formatted();
  ASSERT_EQ(Shell("debugfs -w -R 'ssv free_blocks_count 1' " + Image(id) + " 2>/dev/null"), 0);
  ASSERT_EQ(Shell("debugfs -w -R 'ssv state 2' " + Image(id) + " 2>/dev/null"), 0);
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(BadSurroundings, AnXfsThatWasShutDownIsReportedAndTakenDown) {
  const VolumeCapability xfs = Mount("xfs");
  const std::string id = Created(xfs, kXfsBytes);
  const std::string staging = Staging(id);
  ASSERT_OK(driver().Stage(id, staging, xfs));
  ASSERT_OK(driver().Publish(id, staging, Target("a"), xfs));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  ASSERT_EQ(Shell("sync -f " + Target("a") + " && xfs_io -x -c shutdown " + Target("a")), 0);
  for (const std::string& path : {Target("a"), staging}) {
    const auto stats = driver().Stats(id, path);
    ASSERT_OK(stats);
    EXPECT_TRUE(stats->volume_condition().abnormal());
    EXPECT_THAT(stats->volume_condition().message(), HasSubstr("Input/output error"));
  }
  EXPECT_THAT(driver().Publish(id, staging, Target("b"), xfs), FailsWith(Code::kFailedPrecondition, "unstage"));
  Restart(SIGKILL);
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, staging));
  ASSERT_OK(driver().Stage(id, staging, xfs));
  EXPECT_EQ(ReadFile(staging + "/file"), "data");
}

TEST_F(BadSurroundings, ALoopDeviceThatSomebodyElseMadeIsNamed) {
  const std::string id = Formatted();
  const std::string loop = RunOutput("losetup --find --show -o 4096 " + Image(id));
  ASSERT_THAT(loop, HasSubstr("/dev/loop"));
  RefusedStage(id, Code::kFailedPrecondition, loop.substr(0, loop.size() - 1));
  ExpectRefused([&] { return driver().Delete(id); }, Code::kFailedPrecondition, loop.substr(0, loop.size() - 1));
  EXPECT_EQ(Shell("losetup -d " + loop), 0);
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
}

// The state directory on a filesystem of 64 MiB of its own.
class FullDisk : public RpcTest {
 protected:
  void SetUp() override {
    MountTmpfs(state_dir(), "size=64m,mode=700");
    RpcTest::SetUp();
  }

  // In small pieces at the end: a filesystem that delays allocation has some room left after a large write failed.
  void Fill() {
    const std::string ballast = state_dir() + "/ballast";
    Shell("for n in 1 2 3; do cat /dev/zero >>" + ballast + " 2>/dev/null; sync -f " + ballast + "; done");
  }
  void MakeRoom() { fs::remove(state_dir() + "/ballast"); }

  // A volume that is published, with data of its own.
  std::string Filled(const VolumeCapability& capability) {
    const std::string id = Created(capability, 20 * kMiB);
    const std::string target = Target("a", id);
    EXPECT_OK(driver().Stage(id, Staging(id), capability));
    EXPECT_OK(driver().Publish(id, Staging(id), target, capability));
    const std::string file = capability.has_block() ? target : target + "/file";
    EXPECT_EQ(Shell("head -c 8M /dev/urandom | dd of=" + file + " conv=notrunc,fsync status=none"), 0);
    return id;
  }
};

TEST_F(FullDisk, AVolumeLargerThanTheRoomLeftIsOutOfRange) {
  const std::string id = Created(Mount(), 32 * kMiB);
  ExpectRefused([&] { return driver().Create("new", Mount(), 100 * kMiB); }, Code::kOutOfRange, "left");
  ExpectRefused([&] { return driver().Grow(id, 200 * kMiB); }, Code::kOutOfRange, "left");
}

TEST_F(FullDisk, NothingIsCreatedAndTheNameStaysFree) {
  Fill();
  const auto refused = driver().Create("new", Mount(), 32 * kMiB);
  EXPECT_THAT(refused.status.code(), ::testing::AnyOf(Code::kOutOfRange, Code::kResourceExhausted));
  MakeRoom();
  EXPECT_OK(driver().Create("new", Mount(), 48 * kMiB)) << "of another size: nothing remembers the first";
}

TEST_F(FullDisk, AStageThatFindsNoRoomLeavesTheVolumeAsItWas) {
  const std::string id = Created(Mount(), 48 * kMiB);
  const std::string staging = Staging(id);
  Fill();
  ExpectRefused([&] { return driver().Stage(id, staging); }, Code::kResourceExhausted, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(state_dir() + "/volumes"), fs::directory_iterator()), 1);
  MakeRoom();
  EXPECT_OK(driver().Stage(id, staging));
}

// What cannot be taken down cannot be deleted, and then there is never room again.
TEST_F(FullDisk, UnpublishUnstageAndDeleteStillWork) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Created(capability, 20 * kMiB);
    ASSERT_OK(driver().Stage(id, Staging(id), capability));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
    Fill();
    EXPECT_OK(driver().Unpublish(id, Target("a")));
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
    // The record of a volume that held no data cannot go, for its image gave no room back.
    const auto deleted = driver().Delete(id);
    MakeRoom();
    if (!deleted.status.ok()) {
      EXPECT_THAT(deleted, FailsWith(Code::kResourceExhausted, "make room"));
      EXPECT_OK(driver().Delete(id));
    }
  }
}

// However the last process ended, and although the disk was filled to the last byte after that.
class StartOnAFullDisk : public FullDisk, public ::testing::WithParamInterface<std::pair<const char*, int>> {
 protected:
  void SetUp() override {
    const std::string disk = elsewhere_ / "disk";
    const bool ext4 = std::string(GetParam().first) == "ext4";
    if (!ext4) return FullDisk::SetUp();
    fs::create_directories(state_dir());
    ASSERT_EQ(Shell("truncate -s 96M " + disk + " && mkfs.ext4 -q -m 0 -b 4096 -N 1000 " + disk), 0);
    ASSERT_EQ(Shell("mount -o loop " + disk + " " + state_dir()), 0);
    Forgive(state_dir());
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
  TempDir elsewhere_;  // a loop device over a file of the test's own directory would be taken for a volume's
};

INSTANTIATE_TEST_SUITE_P(Ended, StartOnAFullDisk,
                         ::testing::Values(std::pair("tmpfs", SIGTERM), std::pair("tmpfs", SIGKILL),
                                           std::pair("ext4", SIGTERM), std::pair("ext4", SIGKILL)),
                         [](const auto& ended) {
                           return std::string(ended.param.first) + (ended.param.second == SIGTERM ? "_Term" : "_Kill");
                         });

TEST_P(StartOnAFullDisk, UnpublishUnstageAndDeleteWorkAndMakeRoom) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Filled(capability);
    EndFillAndStart();
    EXPECT_OK(driver().Unpublish(id, Target("a", id)));
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
    EndFillAndStart();
    EXPECT_OK(driver().Delete(id));
    EXPECT_OK(driver().Delete(Created(Block(), kMiB))) << "there is room again";
    MakeRoom();
    Restart(SIGTERM);  // forgets the records of uses that are gone, where the full disk kept them
  }
}

TEST_P(StartOnAFullDisk, AVolumeThatNobodyUsesIsDeletedAndMakesRoom) {
  const std::string id = Filled(Mount());
  EXPECT_OK(driver().Unpublish(id, Target("a", id)));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
  EndFillAndStart();
  EXPECT_OK(driver().Delete(id));
  EXPECT_OK(driver().Delete(Created(Block(), kMiB))) << "there is room again";
  MakeRoom();
}

// Those of the boot before are void, and there is no room to say so; nor for what SQLite needs to open them.
TEST_F(FullDisk, RecordsThatCannotBeRenewedAfterARebootAreKeptInMemory) {
  const std::string id = Filled(Mount());
  plugin().Terminate();
  Rows(state_dir() + "/node.db", "UPDATE boot SET id = 'the one before'");
  Fill();
  Start();
  EXPECT_THAT(plugin().Log(), HasSubstr("kept in memory"));
  EXPECT_OK(driver().Unpublish(id, Target("a", id)));
  EXPECT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); }));
  EXPECT_OK(driver().Delete(id));
  MakeRoom();
  Restart(SIGTERM);
}

TEST_F(FullDisk, APublishThatCannotBeRecordedLeavesNothingMounted) {
  const std::string id = Created(Mount(), 20 * kMiB);
  ASSERT_OK(driver().Stage(id, Staging(id)));
  Fill();
  const auto answer = driver().Publish(id, Staging(id), Target("a"));
  if (!answer.status.ok()) {  // the log of the records may have room left in it
    EXPECT_EQ(answer.status.code(), Code::kResourceExhausted) << answer.status;
    EXPECT_FALSE(MountAt(Target("a")));
    EXPECT_FALSE(fs::exists(Target("a")));
  }
  MakeRoom();
  EXPECT_OK(driver().Publish(id, Staging(id), Target("a")));
}

}  // namespace
}  // namespace mooring::testing
