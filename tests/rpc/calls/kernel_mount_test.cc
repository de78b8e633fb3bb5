// The kernel's word on filesystem volumes: type, size, flags, read-only, propagation, and the data across everything.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <fstream>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/peer_namespace.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class KernelMount : public RpcTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string fs_type() const { return GetParam(); }
  std::int64_t bytes() const { return fs_type() == "ext4" ? kVolumeBytes : kXfsBytes; }
  VolumeCapability Use(const std::vector<std::string>& flags = {}) { return Mount(fs_type(), kMultiWriter, flags); }
  std::string NewVolume() { return Created(Use(), bytes()); }
};

INSTANTIATE_TEST_SUITE_P(Filesystems, KernelMount, ::testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(KernelMount, StageMountsTheFilesystemItself) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
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

TEST_P(KernelMount, FlagsAreThoseThatWereAskedFor) {
  const std::string own = fs_type() == "xfs" ? "logbufs=4" : "commit=40";
  const VolumeCapability capability = Use({"nosuid,noatime", "nodev", "noexec", own});
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), capability));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  for (const std::string& path : {Staging(id), Target("a")}) {
    const auto mount = MountAt(path);
    ASSERT_TRUE(mount);
    for (const char* flag : {"rw", "nosuid", "noatime", "nodev", "noexec"}) {
      EXPECT_THAT(mount->options, Contains(flag)) << path;
    }
    EXPECT_THAT(mount->super_options, Contains(own));
  }
}

// A tenant writes the volume: it may have made a node of any disk of the host.
TEST_P(KernelMount, ADeviceNodeOnAVolumeOpensNothingUnlessDevIsNamed) {
  for (const bool named : {false, true}) {
    const VolumeCapability use = named ? Use({"dev"}) : Use();
    const std::string id = Created(use, bytes());
    ASSERT_OK(driver().Stage(id, Staging(id), use));
    ASSERT_OK(driver().Publish(id, Staging(id), Target(id), use));
    ASSERT_EQ(::mknod((Staging(id) + "/zero").c_str(), S_IFCHR | 0600, makedev(1, 5)), 0);
    for (const std::string& path : {Staging(id), Target(id)}) {
      const UniqueFd fd(::open((path + "/zero").c_str(), O_RDONLY | O_CLOEXEC));
      EXPECT_EQ(fd.ok(), named) << path;
      EXPECT_TRUE(named || errno == EACCES) << std::strerror(errno);
    }
  }
}

TEST_P(KernelMount, APublishMayBeStricterThanItsStagingAndNeverLooser) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use({"nosuid"})));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use({"noexec", "nodev"})));
  const auto mount = MountAt(Target("a"));
  ASSERT_TRUE(mount);
  for (const char* flag : {"nosuid", "nodev", "noexec"}) EXPECT_THAT(mount->options, Contains(flag));
  EXPECT_FALSE(MountAt(Staging(id))->Has("noexec"));
}

TEST_P(KernelMount, AReadOnlyTargetRefusesWritesWhileAWritableOneTakesThem) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("rw"), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), Use(), true));
  EXPECT_EQ(TryWrite(Target("rw") + "/file", "data"), 0);
  EXPECT_EQ(TryWrite(Target("ro") + "/other", "data"), EROFS);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "data"), EROFS);
  EXPECT_EQ(ReadFile(Target("ro") + "/file"), "data");
  EXPECT_TRUE(MountAt(Target("ro"))->Has("ro"));
  EXPECT_TRUE(MountAt(Target("ro"))->SuperHas("rw"));
  EXPECT_EQ(Shell("mount -o remount,bind,rw " + Target("rw")), 0);
}

TEST_P(KernelMount, ReaderOnlyModesAreReadOnlyWhateverElseIsAsked) {
  for (const auto mode : {AccessMode::SINGLE_NODE_READER_ONLY, AccessMode::MULTI_NODE_READER_ONLY}) {
    const std::string id = NewVolume();
    ASSERT_OK(driver().Stage(id, Staging(id), Mount(fs_type(), mode)));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("a", id), Mount(fs_type(), mode)));
    EXPECT_EQ(TryWrite(Target("a", id) + "/file", "data"), EROFS);
    EXPECT_EQ(TryWrite(Staging(id) + "/file", "data"), EROFS);
  }
}

TEST_P(KernelMount, OnASharedParentTheStagingStaysPrivateAndTheTargetIsShared) {
  ShareDirectory();
  const std::string id = NewVolume();
  const PeerNamespace peer;
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
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
  EXPECT_THAT(peer.MountInfo(), ::testing::Not(HasSubstr(Target("rw"))));
}

TEST_P(KernelMount, WhatATaskMountsBelowATargetStaysOutOfTheStaging) {
  ShareDirectory();
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(Shell("mkdir " + Target("a") + "/sub && mount -t tmpfs tmpfs " + Target("a") + "/sub"), 0);
  EXPECT_FALSE(MountAt(Staging(id) + "/sub"));
  ASSERT_EQ(Shell("umount " + Target("a") + "/sub"), 0);
}

// The way of a volume's data: every mount gone, the plugin anew, larger than before.
TEST_P(KernelMount, DataSurvivesUnpublishUnstageRestartExpandAndStage) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  const std::uint64_t before = MountedBytes(Target("a"));
  ASSERT_EQ(Shell("head -c 3000000 /dev/urandom > " + Target("a") + "/file"), 0);
  const std::string data = ReadFile(Target("a") + "/file");
  ASSERT_OK(driver().Unpublish(id, Target("a")));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); })) << "the device goes with the last mount";
  Restart(SIGKILL);
  ASSERT_OK(driver().Grow(id, 2 * bytes()));
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("b"), Use()));
  EXPECT_EQ(ReadFile(Target("b") + "/file"), data);
  EXPECT_GT(MountedBytes(Target("b")), before + before / 2);
  EXPECT_EQ(DeviceBytes(MountAt(Target("b"))->source), static_cast<std::uint64_t>(2 * bytes()));
}

TEST_P(KernelMount, AMountedFilesystemGrowsUnderItsUser) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
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

TEST_P(KernelMount, ItGrowsThroughItsStagingPathAndAReadOnlyTargetToo) {
  if (fs_type() == "ext4" && !HasCapSysResource()) GTEST_SKIP() << "no CAP_SYS_RESOURCE";
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
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

TEST_P(KernelMount, TheGroupOwnsTheVolumeAndWhatIsMadeInIt) {
  const VolumeCapability capability = WithGroup(Use(), "4711");
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), capability));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), capability));
  struct stat root = {}, file = {};
  ASSERT_EQ(::stat(Target("a").c_str(), &root), 0);
  EXPECT_EQ(root.st_gid, 4711U);
  EXPECT_EQ(root.st_mode & (S_ISGID | S_IRWXG), static_cast<mode_t>(S_ISGID | S_IRWXG));
  // They begin in the target, since the way to it may be closed to them.
  const std::string there = "cd " + Target("a") + " && ";
  EXPECT_EQ(Shell(there + "setpriv --reuid 1234 --regid 4711 --clear-groups sh -c 'umask 002; echo x > file'"), 0);
  EXPECT_NE(Shell(there + "setpriv --reuid 1234 --regid 1234 --clear-groups sh -c 'echo x > other' 2>/dev/null"), 0);
  ASSERT_EQ(::stat((Target("a") + "/file").c_str(), &file), 0);
  EXPECT_EQ(file.st_gid, 4711U);
  EXPECT_NE(file.st_mode & S_IWGRP, 0U);
}

TEST_P(KernelMount, AGroupOfThePublishAloneIsAppliedThere) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("ro"), WithGroup(Use(), "4712"), true));
  struct stat root = {};
  ASSERT_EQ(::stat(Target("ro").c_str(), &root), 0);
  EXPECT_EQ(root.st_gid, 4712U);
  EXPECT_EQ(TryWrite(Target("ro") + "/file", "x"), EROFS);
}

TEST_P(KernelMount, FiguresAreThoseOfTheVolume) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(Shell("head -c 5000000 /dev/zero > " + Target("a") + "/file && sync -f " + Target("a")), 0);
  for (const std::string& path : {Staging(id), Target("a")}) {
    struct statvfs now = {};
    ASSERT_EQ(::statvfs(path.c_str(), &now), 0);
    const auto stats = driver().Stats(id, path);
    ASSERT_OK(stats);
    const bool counts_inodes = fs_type() != "btrfs";  // it makes them as it needs them
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

TEST_P(KernelMount, ADeletedImageIsAnAbnormalCondition) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use()));
  ASSERT_EQ(::unlink(Image(id).c_str()), 0);
  const auto stats = driver().Stats(id, Target("a"));
  ASSERT_OK(stats);
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr("deleted"));
  ExpectRefused([&] { return driver().Stage(id, Staging(id), Use()); }, Code::kInternal, Image(id));
}

TEST_P(KernelMount, AnImageCutShortIsAnAbnormalCondition) {
  const std::string id = NewVolume();
  ASSERT_OK(driver().Stage(id, Staging(id), Use()));
  ASSERT_EQ(::truncate(Image(id).c_str(), bytes() / 2), 0);
  const auto stats = driver().Stats(id, Staging(id));
  ASSERT_OK(stats);
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_THAT(stats->volume_condition().message(), HasSubstr("cut short"));
}

}  // namespace
}  // namespace mooring::testing
