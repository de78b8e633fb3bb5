// Changes of the flags and the size of attached mounts, and filesystems in memory.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class ChangeMountTest : public KernelTest {
 protected:
  MountRequest Memory(const std::string& target, std::uint64_t bytes = 4 * kMiB) {
    MountRequest request;
    request.source = "mooring:vol-1";
    request.fs_type = "tmpfs";
    request.target = target;
    request.options = {{"size", std::to_string(bytes)}, {"mode", "0755"}, {"huge", "never"}};
    return request;
  }
  static ChangeRequest SizeOf(const std::string& target, std::uint64_t bytes) {
    return {.target = target, .options = {{"size", std::to_string(bytes)}}};
  }
};

TEST_F(ChangeMountTest, MemoryHasItsSizeItsFlagsAndItsName) {
  MountRequest request = Memory(Dir("m"));
  request.flags.noexec = true;
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_EQ(BytesAt(Path("m")), 4 * kMiB);
  const absl::StatusOr<PathInfo> found = mounter_.Find(Path("m"));
  ASSERT_OK(found);
  EXPECT_EQ(found->mount->source, "mooring:vol-1");
  EXPECT_TRUE(found->mount->flags.noexec);
  EXPECT_EQ(found->inode, StatOf(Path("m")).st_ino);
  const absl::StatusOr<std::vector<ListedMount>> listed = mounter_.List(Path("m"));
  ASSERT_OK(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().source, "mooring:vol-1");
  EXPECT_THAT(mounter_.Mount(Memory(Path("m"))), Refused("a mount already"));
}

TEST_F(ChangeMountTest, MemoryWithoutALimitOrANameIsRefused) {
  MountRequest request = Memory(Dir("m"));
  for (const char* size : {"0", "-1", "50%", "4m", "", "99999999999999999999"}) {
    request.options = {{"size", size}};
    EXPECT_THAT(mounter_.Mount(request), FailsWith(StatusCode::kInvalidArgument, "")) << size;
  }
  for (const FilesystemOption& option : {FilesystemOption{"mpol", "bind:0"}, FilesystemOption{"huge", "always"},
                                         FilesystemOption{"noswap", "1"}, FilesystemOption{"mode", "0755,x"}}) {
    request.options = {{"size", "4096"}, option};
    EXPECT_THAT(mounter_.Mount(request), FailsWith(StatusCode::kInvalidArgument, "not allowed for tmpfs"));
  }
  request = Memory(Path("m"));
  request.source = "";
  EXPECT_THAT(mounter_.Mount(request), FailsWith(StatusCode::kInvalidArgument, "needs a source"));
  EXPECT_EQ(OptionsAt(Path("m")), "nothing");
}

TEST_F(ChangeMountTest, FlagsBecomeExactlyThose) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  MountFlags flags;
  flags.read_only = flags.nosuid = true;
  flags.atime = Atime::kNoatime;
  ASSERT_OK(mounter_.Change({.target = Path("m"), .flags = flags}));
  EXPECT_EQ(OptionsAt(Path("m")), "ro,nosuid,noatime");
  ASSERT_OK(mounter_.Change({.target = Path("m"), .flags = MountFlags()}));
  EXPECT_EQ(OptionsAt(Path("m")), "rw,relatime");
}

TEST_F(ChangeMountTest, OtherMountsOfTheFilesystemKeepTheirs) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  ASSERT_OK(mounter_.Bind(BindOf(Path("m"), Path("other"), {})));
  ASSERT_OK(mounter_.Change({.target = Path("other"), .flags = ReadOnly()}));
  EXPECT_EQ(OptionsAt(Path("m")), "rw,relatime");
  EXPECT_EQ(OptionsAt(Path("other")), "ro,relatime");
}

TEST_F(ChangeMountTest, MemoryGrowsThroughAReadOnlyMountAndStaysWritable) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  ASSERT_OK(mounter_.Bind(BindOf(Path("m"), Path("ro"), ReadOnly())));
  ASSERT_OK(mounter_.Change(SizeOf(Path("ro"), 16 * kMiB)));
  EXPECT_EQ(BytesAt(Path("m")), 16 * kMiB);
  EXPECT_EQ(OptionsAt(Path("ro")), "ro,relatime");
  EXPECT_EQ(TryWrite(Path("m/file"), "x"), 0);
  EXPECT_EQ(TryWrite(Path("ro/file"), "x"), EROFS);
}

// libmount 2.38.1 takes away what is not said again.
TEST_F(ChangeMountTest, MemoryThatBecameReadOnlyGrowsAndStaysSo) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  ASSERT_EQ(Tool("mount -o remount,ro " + Path("m")), 0);
  ASSERT_OK(mounter_.Change(SizeOf(Path("m"), 16 * kMiB)));
  EXPECT_EQ(BytesAt(Path("m")), 16 * kMiB);
  EXPECT_TRUE(MountAt(Path("m"))->SuperHas("ro"));
}

// It cannot be bound, and libmount changes another mount of the filesystem.
TEST_F(ChangeMountTest, AnUnbindableMountIsChangedToo) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  ASSERT_EQ(::mount(nullptr, Path("m").c_str(), nullptr, MS_UNBINDABLE, nullptr), 0);
  ASSERT_OK(mounter_.Change(SizeOf(Path("m"), 16 * kMiB)));
  EXPECT_EQ(BytesAt(Path("m")), 16 * kMiB);
  EXPECT_THAT(mounter_.Change(SizeOf(Path("m"), 0)), FailsWith(StatusCode::kInvalidArgument, "the size"));
}

TEST_F(ChangeMountTest, MemoryNeverBecomesSmallerThanWhatIsInIt) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  ASSERT_EQ(Tool("head -c 3M /dev/zero > " + Path("m/file")), 0);
  EXPECT_THAT(mounter_.Change(SizeOf(Path("m"), kMiB)), Refused("change the filesystem"));
  EXPECT_EQ(BytesAt(Path("m")), 4 * kMiB);
}

TEST_F(ChangeMountTest, RefusedChangeChangesNothing) {
  EXPECT_THAT(mounter_.Change({.target = Dir("plain"), .flags = ReadOnly()}), Refused("nothing is mounted"));
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  EXPECT_THAT(mounter_.Change({.target = Path("m"), .flags = ReadOnly(), .options = {{"uid", "1"}}}),
              FailsWith(StatusCode::kInvalidArgument, "not allowed"));
  EXPECT_EQ(OptionsAt(Path("m")), "rw,relatime");
}

TEST_F(ChangeMountTest, AFilesystemOnADeviceTakesWhatItIsAllowed) {
  ASSERT_OK(mounter_.Mount(MountOf(Ext4Image("a.img"), Dir("m"))));
  ASSERT_OK(mounter_.Change({.target = Path("m"), .options = {{"commit", "30"}}}));
  EXPECT_EQ(Tool("findmnt -no FS-OPTIONS " + Path("m") + " | grep -q commit=30"), 0);
  EXPECT_THAT(mounter_.Change({.target = Path("m"), .options = {{"journal_path", "/dev/null"}}}),
              FailsWith(StatusCode::kInvalidArgument, "not allowed for ext4"));
}

TEST_F(ChangeMountTest, WhatTheSuperblockHasStays) {
  MountRequest request = MountOf(Ext4Image("a.img"), Dir("m"));
  request.options = {{"lazytime", std::nullopt}, {"sync", std::nullopt}, {"commit", "20"}};
  ASSERT_OK(mounter_.Mount(request));
  ASSERT_OK(mounter_.Change({.target = Path("m"), .options = {{"commit", "30"}}}));
  const MountLine changed = *MountAt(Path("m"));
  EXPECT_TRUE(changed.SuperHas("commit=30") && changed.SuperHas("lazytime") && changed.SuperHas("sync"));
  ASSERT_EQ(Tool("mount -o remount,ro " + Path("m")), 0);
  ASSERT_OK(mounter_.Change({.target = Path("m"), .options = {{"commit", "25"}}}));
  EXPECT_TRUE(MountAt(Path("m"))->SuperHas("commit=25"));
  EXPECT_TRUE(MountAt(Path("m"))->SuperHas("ro"));
}

TEST_F(ChangeMountTest, ARefusedChangeTellsTheKernelsReason) {
  ASSERT_OK(mounter_.Mount(Memory(Dir("m"))));
  ASSERT_EQ(Tool("head -c 3M /dev/zero > " + Path("m/file")), 0);
  EXPECT_THAT(mounter_.Change(SizeOf(Path("m"), kMiB)), Refused("tmpfs: Too small a size for current use"));
}

}  // namespace
}  // namespace mooring::testing
