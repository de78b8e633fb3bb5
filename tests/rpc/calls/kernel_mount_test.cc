// Filesystem volumes as the kernel shows them: type, size, flags, read-only, propagation and data.
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "tests/rpc/support/peer_namespace.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class KernelMount : public RpcTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string fs_type() const { return GetParam(); }
  std::int64_t bytes() const { return fs_type() == "ext4" ? kVolumeBytes : kXfsBytes; }
  VolumeCapability Use(const std::vector<std::string>& flags = {}) { return Mount(fs_type(), kMultiWriter, flags); }
  std::string NewVolume() { return Created(Use(), bytes()); }
};

INSTANTIATE_TEST_SUITE_P(Filesystems, KernelMount, ::testing::Values("ext4", "xfs", "btrfs"), NameOfRow);

TEST_P(KernelMount, StageMountsTheFilesystemItself) {
  const std::string id = Staged(Use(), bytes());
  const auto staged = MountAt(Staging(id));
  ASSERT_TRUE(staged);
  EXPECT_EQ(staged->fs_type, fs_type());
  EXPECT_EQ(staged->root, "/");
  EXPECT_THAT(staged->source, StartsWith("/dev/loop"));
  EXPECT_TRUE(staged->Has("rw"));
  EXPECT_THAT(staged->propagation, IsEmpty());
  EXPECT_EQ(DeviceBytes(staged->source), static_cast<std::uint64_t>(bytes()));
  EXPECT_LE(MountedBytes(Staging(id)), static_cast<std::uint64_t>(bytes()));
  EXPECT_GT(MountedBytes(Staging(id)), static_cast<std::uint64_t>(bytes()) / 2);
  const auto loops = LoopsHere();
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0].backing_file, Image(id));
  EXPECT_TRUE(loops[0].auto_clear);
}

TEST_P(KernelMount, MountFlagsAreApplied) {
  const std::string own = fs_type() == "xfs" ? "logbufs=4" : "commit=40";
  const VolumeCapability capability = Use({"nosuid,noatime", "nodev", "noexec", own});
  const std::string id = NewVolume();
  StageAndPublish(id, Target("a"), capability);
  for (const std::string& path : {Staging(id), Target("a")}) {
    const auto mount = MountAt(path);
    ASSERT_TRUE(mount);
    for (const char* flag : {"rw", "nosuid", "noatime", "nodev", "noexec"}) {
      EXPECT_THAT(mount->options, Contains(flag)) << path;
    }
    EXPECT_THAT(mount->super_options, Contains(own));
  }
}

// A tenant may make a device node of any disk of the host on its volume.
TEST_P(KernelMount, DeviceNodesOnAVolumeNeedTheFlagDev) {
  for (const bool named : {false, true}) {
    const VolumeCapability use = named ? Use({"dev"}) : Use();
    const std::string id = Created(use, bytes());
    StageAndPublish(id, Target(id), use);
    ASSERT_EQ(::mknod((Staging(id) + "/zero").c_str(), S_IFCHR | 0600, makedev(1, 5)), 0);
    for (const std::string& path : {Staging(id), Target(id)}) {
      const UniqueFd fd(::open((path + "/zero").c_str(), O_RDONLY | O_CLOEXEC));
      EXPECT_EQ(fd.ok(), named) << path;
      EXPECT_TRUE(named || errno == EACCES) << std::strerror(errno);
    }
  }
}

TEST_P(KernelMount, PublishAddsFlagsAndKeepsThoseOfTheStage) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use({"nosuid"})));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use({"noexec", "nodev"})));
  const auto mount = MountAt(Target("a"));
  ASSERT_TRUE(mount);
  for (const char* flag : {"nosuid", "nodev", "noexec"}) EXPECT_THAT(mount->options, Contains(flag));
  EXPECT_FALSE(MountAt(Staging(id))->Has("noexec"));
}

TEST_P(KernelMount, ReadOnlyAndWritableTargetsShareAVolume) {
  const std::string id = Published(Target("rw"), Use(), bytes());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Use(), true));
  EXPECT_EQ(TryWrite(Target("rw") + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("ro") + "/other", "data"), EROFS);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "data"), EROFS);
  EXPECT_EQ(ReadFile(Target("ro") + "/file"), "data");
  EXPECT_TRUE(MountAt(Target("ro"))->Has("ro"));
  EXPECT_TRUE(MountAt(Target("ro"))->SuperHas("rw"));
  EXPECT_EQ(Shell("mount -o remount,bind,rw " + Target("rw")), 0);
}

TEST_P(KernelMount, ReaderOnlyModesAreReadOnly) {
  for (const auto mode : {AccessMode::SINGLE_NODE_READER_ONLY, AccessMode::MULTI_NODE_READER_ONLY}) {
    const std::string id = NewVolume();
    StageAndPublish(id, Target("a", id), Mount(fs_type(), mode));
    EXPECT_EQ(TryWrite(Target("a", id) + "/file", "data"), EROFS);
    EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), EROFS);
  }
}

TEST_P(KernelMount, StagingIsPrivateAndTargetIsShared) {
  ShareDirectory();
  const PeerNamespace peer;
  const std::string id = Staged(Use(), bytes());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), Use({"nosuid"})));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Use({"noexec"}), true));
  EXPECT_THAT(MountAt(Staging(id))->propagation, IsEmpty());
  EXPECT_THAT(MountAt(Target("rw"))->propagation, Contains(StartsWith("shared:")));
  EXPECT_EQ(peer.Run("echo data > " + Target("rw") + "/file"), 0);
  EXPECT_EQ(ReadFile(Target("rw") + "/file"), "data\n");
  EXPECT_NE(peer.Run("echo data > " + Target("ro") + "/file 2>/dev/null"), 0);
  EXPECT_EQ(peer.Run("findmnt -no VFS-OPTIONS " + Target("ro") + " | grep -q ^ro,.*noexec"), 0);
  EXPECT_EQ(peer.Run("findmnt -no VFS-OPTIONS " + Target("rw") + " | grep -q ^rw,nosuid"), 0);
  ASSERT_OK(driver().Unpublish(id, Target("rw")));
  EXPECT_THAT(peer.MountInfo(), Not(HasSubstr(Target("rw"))));
}

TEST_P(KernelMount, MountsBelowATargetDoNotReachTheStagingPath) {
  ShareDirectory();
  const std::string id = Published(Target("a"), Use(), bytes());
  ASSERT_EQ(Shell("mkdir " + Target("a") + "/sub && mount -t tmpfs tmpfs " + Target("a") + "/sub"), 0);
  EXPECT_FALSE(MountAt(Staging(id) + "/sub"));
  ASSERT_EQ(Shell("umount " + Target("a") + "/sub"), 0);
}

TEST_P(KernelMount, DataSurvivesUnpublishUnstageRestartExpandAndStage) {
  const std::string id = Published(Target("a"), Use(), bytes());
  const std::uint64_t before = MountedBytes(Target("a"));
  ASSERT_EQ(Shell("head -c 3000000 /dev/urandom > " + Target("a") + "/file"), 0);
  const std::string data = ReadFile(Target("a") + "/file");
  UnpublishAndUnstage(id, Target("a"));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); })) << "the device goes with the last mount";
  Restart(SIGKILL);
  ASSERT_OK(driver().Grow(id, 2 * bytes()));
  StageAndPublish(id, Target("b"), Use());
  EXPECT_EQ(ReadFile(Target("b") + "/file"), data);
  EXPECT_GT(MountedBytes(Target("b")), before + before / 2);
  EXPECT_EQ(DeviceBytes(MountAt(Target("b"))->source), static_cast<std::uint64_t>(2 * bytes()));
}

TEST_P(KernelMount, MountedFilesystemGrows) {
  const std::string id = Published(Target("a"), Use(), bytes());
  const std::uint64_t before = MountedBytes(Target("a"));
  ASSERT_EQ(TryWrite(Target("a") + "/file", "data"), 0);
  std::ofstream open_file(Target("a") + "/open");
  ASSERT_OK(driver().Grow(id, 2 * bytes()));
  const auto grown = driver().NodeExpand(id, Target("a"), 2 * bytes());
  if (fs_type() == "ext4" && !HasCapSysResource()) {
    EXPECT_THAT(grown, FailsWith(Code::kFailedPrecondition, "CAP_SYS_RESOURCE"));
    EXPECT_EQ(MountedBytes(Target("a")), before);
  } else {
    ASSERT_OK(grown);
    EXPECT_EQ(grown->capacity_bytes(), 2 * bytes());
    EXPECT_GT(MountedBytes(Target("a")), before + before / 2);
  }
  EXPECT_EQ(DeviceBytes(MountAt(Target("a"))->source), static_cast<std::uint64_t>(2 * bytes()));
  EXPECT_EQ(ReadFile(Target("a") + "/file"), "data");
}

TEST_P(KernelMount, ExpandAcceptsStagingPathAndReadOnlyTarget) {
  if (fs_type() == "ext4" && !HasCapSysResource()) GTEST_SKIP() << "no CAP_SYS_RESOURCE";
  const std::string id = Staged(Use(), bytes());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Use(), true));
  std::int64_t size = bytes();
  for (const std::string& path : {Staging(id), Target("ro")}) {
    size += bytes();
    ASSERT_OK(driver().Grow(id, size));
    ASSERT_OK(driver().NodeExpand(id, path, size));
    EXPECT_GT(MountedBytes(path), static_cast<std::uint64_t>(size) * 3 / 4);
  }
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "data"), EROFS);
}

TEST_P(KernelMount, MountGroupOwnsTheVolumeAndNewFiles) {
  const VolumeCapability capability = WithGroup(Use(), "4711");
  const std::string id = NewVolume();
  StageAndPublish(id, Target("a"), capability);
  const struct stat root = StatOf(Target("a"));
  EXPECT_EQ(root.st_gid, 4711U);
  EXPECT_EQ(root.st_mode & (S_ISGID | S_IRWXG), static_cast<mode_t>(S_ISGID | S_IRWXG));
  // The commands begin in the target, because its parent directories may be closed to these users.
  const std::string there = "cd " + Target("a") + " && ";
  EXPECT_EQ(Shell(there + "setpriv --reuid 1234 --regid 4711 --clear-groups sh -c 'umask 002; echo x > file'"), 0);
  EXPECT_NE(Shell(there + "setpriv --reuid 1234 --regid 1234 --clear-groups sh -c 'echo x > other' 2>/dev/null"), 0);
  const struct stat file = StatOf(Target("a") + "/file");
  EXPECT_EQ(file.st_gid, 4711U);
  EXPECT_NE(file.st_mode & S_IWGRP, 0U);
}

TEST_P(KernelMount, PublishAppliesItsMountGroup) {
  const std::string id = Staged(Use(), bytes());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), WithGroup(Use(), "4712"), true));
  EXPECT_EQ(StatOf(Target("ro")).st_gid, 4712U);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "x"), EROFS);
}

TEST_P(KernelMount, StatsMatchTheFilesystem) {
  const std::string id = Published(Target("a"), Use(), bytes());
  ASSERT_EQ(Shell("head -c 5000000 /dev/zero > " + Target("a") + "/file && sync -f " + Target("a")), 0);
  for (const std::string& path : {Staging(id), Target("a")}) {
    struct statvfs now = {};
    ASSERT_EQ(::statvfs(path.c_str(), &now), 0);
    const auto stats = driver().Stats(id, path);
    ASSERT_OK(stats);
    const bool counts_inodes = fs_type() != "btrfs";  // btrfs makes inodes as it needs them
    ASSERT_EQ(stats->usage_size(), counts_inodes ? 2 : 1);
    const auto& bytes = stats->usage(0);
    EXPECT_EQ(bytes.unit(), csi::v1::VolumeUsage::BYTES);
    EXPECT_EQ(static_cast<std::uint64_t>(bytes.total()), now.f_blocks * now.f_frsize);
    EXPECT_EQ(static_cast<std::uint64_t>(bytes.available()), now.f_bavail * now.f_frsize);
    EXPECT_EQ(static_cast<std::uint64_t>(bytes.used()), (now.f_blocks - now.f_bfree) * now.f_frsize);
    EXPECT_GT(bytes.used(), 5'000'000);
    EXPECT_FALSE(stats->volume_condition().abnormal());
    EXPECT_FALSE(stats->volume_condition().message().empty());
    if (!counts_inodes) continue;
    const auto& inodes = stats->usage(1);
    EXPECT_EQ(inodes.unit(), csi::v1::VolumeUsage::INODES);
    EXPECT_EQ(static_cast<std::uint64_t>(inodes.total()), now.f_files);
    EXPECT_EQ(static_cast<std::uint64_t>(inodes.used()), now.f_files - now.f_ffree);
  }
}

}  // namespace
}  // namespace mooring::testing
