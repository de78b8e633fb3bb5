// MountRequest::new_root: a new volume is empty for its user, and gets its first owner and mode once.
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

class NewRootTest : public KernelTest {
 protected:
  std::string Formatted(const std::string& fs_type) {
    const std::string image = Sparse("image", fs_type == "xfs" ? 300 * kMiB : 128 * kMiB);
    EXPECT_OK(mounter_.Format({image, fs_type}));
    return image;
  }
  // Mounts at "root" until the next call.
  void Mount(const std::string& image, const NewRoot& root, const std::string& fs_type = "ext4",
             const MountFlags& flags = {}) {
    Unmount();
    MountRequest request = MountOf(image, Path("root"), fs_type);
    request.new_root = root;
    request.flags = flags;
    ASSERT_OK(mounter_.Mount(request));
  }
  void Unmount() { ASSERT_OK(mounter_.Unmount(UnmountOf(Path("root"), true))); }
  std::string Owner(const std::string& name = "root") const {
    const struct stat status = StatOf(Path(name));
    return fmt::format("{}:{} {:04o}", status.st_uid, status.st_gid, status.st_mode & 07777);
  }
};

constexpr NewRoot kOwner = {.uid = 999, .gid = 998, .mode = 02750};

class NewRootTypeTest : public NewRootTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Types, NewRootTypeTest, ::testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(NewRootTypeTest, NewFilesystemIsEmptyAndStaysWhole) {
  const std::string image = Formatted(GetParam());
  Mount(image, {}, GetParam());
  EXPECT_THAT(Entries(Path("root")), IsEmpty());
  EXPECT_EQ(Owner(), "0:0 0755");
  Unmount();
  EXPECT_TRUE(IsClean(image, GetParam()));
}

TEST_P(NewRootTypeTest, OwnerAndModeAreSetOnceAlsoForAReadOnlyMount) {
  const std::string image = Formatted(GetParam());
  Mount(image, kOwner, GetParam(), ReadOnly());
  EXPECT_EQ(Owner(), "999:998 2750");
  EXPECT_EQ(TryWrite(Path("root/file"), "x"), EROFS);
  ASSERT_NO_FATAL_FAILURE(Mount(image, kOwner, GetParam()));
  ASSERT_EQ(::chown(Path("root").c_str(), 5, 6), 0);
  ASSERT_EQ(::chmod(Path("root").c_str(), 0700), 0);
  Mount(image, kOwner, GetParam());
  EXPECT_EQ(Owner(), "5:6 0700") << "its user has changed it";
}

TEST_P(NewRootTypeTest, DirectoryWithFilesKeepsItsOwner) {
  const std::string image = Formatted(GetParam());
  Mount(image, {}, GetParam());
  ASSERT_EQ(TryWrite(Path("root/file"), "x"), 0);
  Mount(image, kOwner, GetParam());
  EXPECT_EQ(Owner(), "0:0 0755");
}

TEST_F(NewRootTest, WhatIsNotAskedForStays) {
  const std::string image = Formatted("ext4");
  Mount(image, {.mode = 01777});
  EXPECT_EQ(Owner(), "0:0 1777");
  Mount(image, {.gid = 7, .mode = 01777});
  EXPECT_EQ(Owner(), "0:7 1777") << "an interrupted call is completed";
}

TEST_F(NewRootTest, GroupOfTheCallComesAfterTheOwner) {
  MountRequest request = MountOf(Formatted("ext4"), Path("root"));
  request.new_root = kOwner;
  request.group = 4711;
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_EQ(Owner(), "999:4711 2770");
}

// A volume of an earlier version, or after a full check.
TEST_F(NewRootTest, UntouchedLostFoundGoesOnlyIfNothingElseIsThere) {
  const std::string image = Ext4Image("image");
  Mount(image, kOwner);
  EXPECT_THAT(Entries(Path("root")), IsEmpty());
  EXPECT_EQ(Owner(), "999:998 2750");
  Unmount();
  EXPECT_TRUE(IsClean(image, "ext4")) << "it needs no lost+found";
  ASSERT_LT(Tool("e2fsck -fp " + image), 256 * 2) << "corrected";
  Mount(image, kOwner);
  EXPECT_THAT(Entries(Path("root")), IsEmpty()) << "e2fsck has made it again";
  ASSERT_EQ(TryWrite(Path("root/file"), "x"), 0);
  ASSERT_EQ(::mkdir(Path("root/lost+found").c_str(), 0700), 0);
  Mount(image, kOwner);
  EXPECT_THAT(Entries(Path("root")), UnorderedElementsAre("file", "lost+found"));
}

TEST_F(NewRootTest, LostFoundWithContentOrAnotherOwnerStays) {
  const std::string image = Ext4Image("image");
  ASSERT_OK(mounter_.Mount(MountOf(image, Path("root"))));
  EXPECT_THAT(Entries(Path("root")), ElementsAre("lost+found")) << "nobody asked for an empty one";
  ASSERT_EQ(TryWrite(Path("root/lost+found/#12"), "saved"), 0);
  Mount(image, kOwner);
  EXPECT_EQ(ReadFile(Path("root/lost+found/#12")), "saved");
  EXPECT_EQ(Owner(), "0:0 0755");
  ASSERT_EQ(::unlink(Path("root/lost+found/#12").c_str()), 0);
  for (const auto& [uid, mode] : {std::pair<uid_t, mode_t>{1000, 0700}, {0, 0755}}) {
    ASSERT_EQ(::chown(Path("root/lost+found").c_str(), uid, 0), 0);
    ASSERT_EQ(::chmod(Path("root/lost+found").c_str(), mode), 0);
    Mount(image, {});
    EXPECT_THAT(Entries(Path("root")), ElementsAre("lost+found")) << uid;
  }
  ASSERT_EQ(::rmdir(Path("root/lost+found").c_str()), 0);
  ASSERT_EQ(::symlink("/", Path("root/lost+found").c_str()), 0);
  Mount(image, {});
  EXPECT_THAT(Entries(Path("root")), ElementsAre("lost+found"));
}

TEST_F(NewRootTest, DirectoryAndMemoryGetTheOwner) {
  BindRequest bind = BindOf(Dir("source"), Path("bound"), ReadOnly());
  bind.new_root = kOwner;
  ASSERT_OK(mounter_.Bind(bind));
  EXPECT_EQ(Owner("source"), "999:998 2750");
  EXPECT_EQ(TryWrite(Path("bound/file"), "x"), EROFS);
  MountRequest memory = MountOf("memory", Path("memory"), "tmpfs");
  memory.options = {{"size", "1048576"}, {"mode", "0755"}};
  memory.new_root = kOwner;
  ASSERT_OK(mounter_.Mount(memory));
  EXPECT_EQ(Owner("memory"), "999:998 2750");
}

}  // namespace
}  // namespace mooring::testing
