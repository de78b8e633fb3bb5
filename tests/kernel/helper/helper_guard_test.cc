// The guard of the helper on the real kernel: requests of a hostile plugin are refused, also through symbolic links,
// and change nothing.
#include <fstream>

#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

TEST_F(HelperGuardTest, TargetsOutsideAreRefused) {
  Stage();
  MountRequest mount = MountOfImage("a.img", "x");
  for (const std::string& target : {Path("outside/x"), Path("csi2"), dir_.path(), Path("volumes/x")}) {
    mount.target = target;
    for (const absl::Status& status :
         {helper().Mount(mount), helper().Bind(BindOf(Target("staged"), target)),
          helper().Unmount(UnmountOf(target, true)), helper().Change({.target = target})}) {
      EXPECT_THAT(status, Refused("--mount-root " + Path("csi")));
    }
    EXPECT_THAT(helper().BindIf({.bind = BindOf(Target("staged"), target), .source = {}}).status(),
                Refused("--mount-root"));
    EXPECT_THAT(helper().UnmountIf({.unmount = UnmountOf(target, true), .target = {}}).status(),
                Refused("--mount-root"));
  }
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("../outside/x"))),
              FailsWith(StatusCode::kInvalidArgument, ""));
}

// The path leads to a forbidden directory under another name.
TEST_F(HelperGuardTest, ForbiddenDirectoriesAreRefusedUnderEveryPath) {
  Stage();
  Dir("own/below/deep");
  Dir("csi/alias");
  ASSERT_EQ(::mount(Path("own").c_str(), Target("alias").c_str(), nullptr, MS_BIND, nullptr), 0);
  Dir("csi/volumes");
  ASSERT_EQ(::mount(Path("volumes").c_str(), Target("volumes").c_str(), nullptr, MS_BIND, nullptr), 0);
  constexpr char kReason[] = "possibly under another path";
  for (const char* target : {"alias", "alias/x", "alias/below", "alias/below/deep", "volumes/x", "volumes"}) {
    EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target(target))), Refused(kReason));
    EXPECT_THAT(helper().Mount(MountOfImage("a.img", target)), Refused(kReason));
    EXPECT_THAT(helper().Unmount(UnmountOf(Target(target), true)), Refused(kReason));
    EXPECT_THAT(helper().BindIf({.bind = BindOf(Target("staged"), Target(target)), .source = {}}).status(),
                Refused(kReason));
    EXPECT_THAT(helper().UnmountIf({.unmount = UnmountOf(Target(target), true), .target = {}}).status(),
                Refused(kReason));
  }
  EXPECT_FALSE(Exists(Path("own/x")));
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("beside"))));
}

// The path of the mount root stays the same, and leads through the forbidden directory.
TEST_F(HelperGuardTest, ARootThatWasMovedIntoAForbiddenDirectoryIsRefused) {
  Stage();
  const std::string top = dir_.path(), aside = top + ".aside";
  std::filesystem::rename(Path("csi"), Path("own/csi"));
  std::filesystem::rename(top, aside);
  std::filesystem::rename(aside + "/own", top);
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("x"))), Refused("possibly under another path"));
  std::filesystem::rename(top, aside + "/own");
  std::filesystem::rename(aside, top);
  std::filesystem::rename(Path("own/csi"), Path("csi"));
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("x"))));
}

TEST_F(HelperGuardTest, SymbolicLinksAreNotFollowed) {
  Stage();
  std::filesystem::create_directory_symlink(Path("outside"), Target("link"));
  std::filesystem::create_symlink(Path("outside/disk.img"), Image("link.img"));
  std::filesystem::create_directory_symlink(Path("outside"), Image("dir"));
  constexpr char kLink[] = "symbolic link";
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("link/x"))), Refused(kLink));
  EXPECT_THAT(helper().Bind(BindOf(Target("staged"), Target("link"))), Refused());
  EXPECT_THAT(helper().Unmount(UnmountOf(Target("link/x"), true)), Refused(kLink));
  for (const char* image : {"link.img", "dir/disk.img"}) {
    EXPECT_THAT(helper().Mount(MountOfImage(image, "x")), Refused(kLink)) << image;
    EXPECT_THAT(helper().AttachLoop({Image(image), "mooring:x", false}), Refused(kLink));
    EXPECT_THAT(helper().Format({Image(image), "ext4"}), Refused());
    EXPECT_THAT(helper().Check(Image(image), "ext4"), Refused());
    EXPECT_THAT(helper().Grow(Image(image), "ext4"), Refused());
    EXPECT_FALSE(helper().Probe(Image(image)).ok()) << image;
  }
}

TEST_F(HelperGuardTest, FilesThatAreNoVolumesAreRefused) {
  Dir("volumes2");
  Ext4Image("volumes2/a.img");
  std::ofstream(Path("catalog.db")) << "records";
  const auto answers = [&](const std::string& file) {
    MountRequest mount = MountOfImage("", "x");
    mount.source = file;
    return std::vector{helper().Mount(mount),         helper().AttachLoop({file, "mooring:x", false}).status(),
                       helper().Probe(file).status(), helper().Format({file, "ext4"}),
                       helper().Check(file, "ext4"),  helper().Grow(file, "ext4")};
  };
  for (const std::string& file :
       {Path("outside/disk.img"), Path("volumes2/a.img"), Path("catalog.db"), std::string("/etc/shadow")}) {
    EXPECT_THAT(answers(file), ::testing::Each(Refused("in none of the directories of volumes"))) << file;
  }
  for (const std::string& file : {Image("../outside/disk.img"), Image("../catalog.db"), std::string()}) {
    EXPECT_THAT(answers(file), ::testing::Each(FailsWith(StatusCode::kInvalidArgument, ""))) << file;
  }
}

// A device node among the volumes would give access to every disk.
TEST_F(HelperGuardTest, ADeviceNodeAmongTheVolumesIsRefused) {
  const std::string foreign = Losetup(Path("outside/disk.img"));
  ASSERT_EQ(::mknod(Image("node").c_str(), S_IFBLK | 0600, StatOf(foreign).st_rdev), 0);
  EXPECT_FALSE(helper().Mount(MountOfImage("node", "x")).ok());
  EXPECT_FALSE(helper().AttachLoop({Image("node"), "mooring:x", false}).ok());
  EXPECT_FALSE(helper().Probe(Image("node")).ok());
  EXPECT_FALSE(helper().Format({Image("node"), "ext4"}).ok());
  EXPECT_FALSE(helper().Check(Image("node"), "ext4").ok());
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

// A device is a volume only as long as a link leads to it.
TEST_F(HelperGuardTest, OnlyDevicesBehindALinkAreVolumes) {
  const std::string device = Losetup(Path("outside/disk.img"));
  Dir("links");
  const auto expect = [&](bool allowed, const char* when) {
    MountRequest mount = MountOfImage("", "x");
    mount.source = device;
    EXPECT_EQ(helper().Mount(mount).ok(), allowed) << when;
    if (allowed) {
      EXPECT_OK(helper().Bind(BindOf(Target("x"), Target("y"))));
      EXPECT_OK(helper().Unmount(UnmountOf(Target("y"), true)));
      EXPECT_OK(helper().Unmount(UnmountOf(Target("x"), true)));
    }
    EXPECT_EQ(helper().Probe(device).ok(), allowed) << when;
    EXPECT_EQ(helper().Check(device, "ext4").ok(), allowed) << when;
    BindRequest bind = BindOf(device, Target("node"));
    bind.target_kind = TargetKind::kFile;
    EXPECT_EQ(helper().Bind(bind).ok(), allowed) << when;
    EXPECT_OK(helper().Unmount(UnmountOf(Target("node"), true)));
    const auto loop = helper().AttachLoop({device, "mooring-ro:x", true});
    EXPECT_EQ(loop.ok(), allowed) << when;
    if (loop.ok()) {
      EXPECT_OK(helper().DetachLoop(*loop));
    }
    EXPECT_THAT(helper().Format({device, "ext4"}), Refused()) << when;
  };
  expect(false, "no link");
  ASSERT_EQ(::symlink(device.c_str(), Path("links/other").c_str()), 0);
  expect(false, "a link that does not match");
  ASSERT_EQ(::symlink(device.c_str(), Path("links/disk-a").c_str()), 0);
  expect(true, "a link that matches");
  const std::string other = Losetup(Path("outside/disk.img"));
  EXPECT_FALSE(helper().Probe(other).ok());
  EXPECT_FALSE(helper().Bind(BindOf(other, Target("other"))).ok());
  EXPECT_EQ(Tool("losetup -d " + other), 0);
  ASSERT_EQ(::unlink(Path("links/disk-a").c_str()), 0);
  expect(false, "a link no more");
  EXPECT_EQ(Tool("losetup -d " + device), 0);
}

TEST_F(HelperGuardTest, SourcesThatAreNoVolumesAreRefused) {
  Stage();
  Dir("csi/plain");
  Dir("csi/staged/below");
  const std::string foreign = Losetup(Path("outside/disk.img"));
  for (const std::string& source : {std::string("/etc"), std::string("/"), Path("outside"), Target("plain"),
                                    Target("staged/below"), foreign, std::string("/dev/null"), Path("volumes/a.img")}) {
    EXPECT_FALSE(helper().Bind(BindOf(source, Target("x"))).ok()) << source;
    EXPECT_FALSE(Exists(Target("x"))) << source;
  }
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

TEST_F(HelperGuardTest, ForeignFilesystemsAreNotGrown) {
  ASSERT_EQ(::mount("tmpfs", Dir("csi/foreign").c_str(), "tmpfs", 0, "size=64k"), 0);
  EXPECT_THAT(helper().Grow(Target("foreign"), "ext4"), Refused("neither the loop"));
  ASSERT_EQ(::umount(Target("foreign").c_str()), 0);
}

// The device number of a btrfs is not that of its device, so the guard asks the kernel.
TEST_F(HelperGuardTest, ABtrfsIsKnownByItsDevice) {
  BtrfsImage("volumes/b.img");
  const std::string foreign = Losetup(BtrfsImage("foreign.img"));
  MountRequest request = MountOfImage("b.img", "btrfs");
  request.fs_type = "btrfs";
  ASSERT_OK(helper().Mount(request));
  EXPECT_OK(helper().Bind(BindOf(Target("btrfs"), Target("x"))));
  EXPECT_OK(helper().Grow(Target("x"), "btrfs"));
  EXPECT_THAT(helper().Grow(Target("x"), "ext4"), FailsWith(StatusCode::kInternal, ""));
  Dir("csi/btrfs/below");
  EXPECT_THAT(helper().Bind(BindOf(Target("btrfs/below"), Target("y"))), Refused("neither the loop device"));
  ASSERT_EQ(::mount(foreign.c_str(), Dir("csi/foreign").c_str(), "btrfs", 0, nullptr), 0);
  EXPECT_THAT(helper().Bind(BindOf(Target("foreign"), Target("y"))), Refused("neither the loop device"));
  EXPECT_THAT(helper().Grow(Target("foreign"), "btrfs"), Refused("neither the loop"));
}

// A helper that is killed between making a target and marking it has left only the mode.
// A directory has the group's bit of its parent.
TEST_F(HelperGuardTest, RemovesATargetThatAHelperMadeAndNoOther) {
  struct Case {
    mode_t mode;
    bool removed;
    std::string content = {};  // of a file
    uid_t owner = 0;
  };
  for (const Case& c : std::vector<Case>{{S_IFDIR | 01750, true},
                                         {S_IFDIR | 01700, true},
                                         {S_IFDIR | 03750, true},
                                         {S_IFDIR | 0750, false},
                                         {S_IFDIR | 0700, false},
                                         {S_IFDIR | 01777, false},
                                         {S_IFDIR | 01750, false, "", 4711},
                                         {S_IFREG | 01640, true},
                                         {S_IFREG | 01640, false, "data"},
                                         {S_IFREG | 01640, false, "", 4711},
                                         {S_IFREG | 03640, false},
                                         {S_IFREG | 0640, false}}) {
    const std::string target = Target("target");
    if (S_ISDIR(c.mode)) {
      ASSERT_EQ(::mkdir(target.c_str(), 0700), 0);
    } else {
      std::ofstream(target) << c.content;
    }
    ASSERT_EQ(::chown(target.c_str(), c.owner, c.owner), 0);
    ASSERT_EQ(::chmod(target.c_str(), c.mode & 07777U), 0);
    EXPECT_EQ(helper().Unmount(UnmountOf(target, true)).ok(), c.content.empty());
    EXPECT_EQ(std::filesystem::exists(target), !c.removed) << std::oct << c.mode << " " << c.content << " " << c.owner;
    std::filesystem::remove(target);
  }
}

TEST_F(HelperGuardTest, LoopDevicesOfOthersAreLeftAlone) {
  const std::string foreign = Losetup(Path("outside/disk.img"));
  LoopInfo info = *helper().Find(foreign)->loop;
  EXPECT_THAT(helper().DetachLoop(info), Refused("the label"));
  EXPECT_THAT(helper().ResizeLoop(info), Refused("the label"));
  EXPECT_THAT(helper().TuneLoop(info, {}), Refused("the label"));
  info.device = "/dev/null";  // and the number as it was
  EXPECT_OK(helper().DetachLoop(info));
  EXPECT_EQ(LoopsOver(Path("outside")).size(), 1U);
  EXPECT_EQ(Tool("losetup -d " + foreign), 0);
}

TEST_F(HelperGuardTest, OtherFilesystemsAndOptionsAreRefused) {
  for (const char* fs_type : {"", "proc", "sysfs", "devtmpfs", "overlay", "fuse", "btrfs ", "EXT4"}) {
    MountRequest request = MountOfImage("a.img", "x");
    request.fs_type = fs_type;
    for (const absl::Status& status :
         {helper().Mount(request), helper().Format({Image("a.img"), fs_type}), helper().Check(Image("a.img"), fs_type),
          helper().Grow(Image("a.img"), fs_type)}) {
      EXPECT_THAT(status, Refused("the mount helper handles ext4, xfs")) << fs_type;
    }
  }
  MountRequest request = MountOfImage("a.img", "x");
  request.options = {{"journal_path", "/dev/sda"}};
  EXPECT_THAT(helper().Mount(request), FailsWith(StatusCode::kInvalidArgument, "not allowed"));
  EXPECT_TRUE(NoLoopOver(Path("volumes")));
}

TEST_F(HelperGuardTest, ATmpfsNeedsOurLabelAndASizeUpToTheLimit) {
  MountRequest memory;
  memory.source = "mooring:vol-1";
  memory.fs_type = "tmpfs";
  memory.target = Target("m");
  memory.options = {{"size", std::to_string(4 * kMiB)}};
  const auto refused = [&](const MountRequest& request) {
    EXPECT_FALSE(helper().Mount(request).ok());
    EXPECT_FALSE(Exists(Target("m")));
  };
  MountRequest request = memory;
  for (const char* source : {"tmpfs", "", "moor", "/etc"}) {
    request.source = source;
    refused(request);
  }
  request.source = memory.source;
  // Sizes that the kernel takes for unlimited, and repeated options, of which the last one counts.
  using Options = std::vector<FilesystemOption>;
  const std::vector<Options> unlimited = {
      {},
      {{"size", "4194305"}},
      {{"size", "0"}},
      {{"size", ""}},
      {{"size", "1m"}},
      {{"size", std::nullopt}},
      {{"size", "18446744073709551616"}},
      {{"size", "4096"}, {"size", "0"}},
      {{"nr_inodes", "1"}},
      {{"size", "1048576"}, {"nr_inodes", "0"}},
      {{"size", "1048576"}, {"nr_inodes", "257"}},
      {{"size", "4096"}, {"nr_inodes", "65"}},
      {{"size", "1048576"}, {"nr_inodes", "1"}, {"nr_inodes", "0"}},
      {{"size", "4096"}, {"mpol", "bind:0"}},
  };
  for (const Options& options : unlimited) {
    request.options = options;
    refused(request);
  }
  ASSERT_OK(helper().Mount(memory));
  for (const Options& options : unlimited) {
    if (options.empty()) continue;
    EXPECT_FALSE(helper().Change({.target = Target("m"), .options = options}).ok()) << ToString(options);
  }
  EXPECT_OK(helper().Change({.target = Target("m"), .options = {{"size", "1048576"}, {"nr_inodes", "256"}}}));
  EXPECT_OK(helper().Bind(BindOf(Target("m"), Target("bound"))));
  EXPECT_OK(helper().Change({.target = Target("bound"), .options = {{"size", "8192"}}}));
}

TEST_F(HelperGuardTest, ATmpfsWithAnotherLabelIsRefused) {
  Dir("csi/theirs");
  ASSERT_EQ(::mount("tmpfs", Target("theirs").c_str(), "tmpfs", 0, "size=1m"), 0);
  EXPECT_FALSE(helper().Bind(BindOf(Target("theirs"), Target("x"))).ok());
  EXPECT_FALSE(helper().Change({.target = Target("theirs"), .flags = ReadOnly()}).ok());
  EXPECT_FALSE(helper().Change({.target = Target("theirs"), .options = {{"size", "4096"}}}).ok());
  EXPECT_EQ(OptionsAt(Target("theirs")), "rw,relatime");
  EXPECT_FALSE(Exists(Target("x")));
}

TEST_F(HelperGuardTest, OnlySubdirectoriesOfAVolumeDirectoryAreVolumes) {
  Dir("dirs/vol-1/inside");
  Dir("outside/vol-1");
  File("dirs/file", "x");
  std::filesystem::create_directory_symlink(Path("outside"), Path("dirs/link"));
  for (const std::string& source : {Path("dirs"), Path("dirs/vol-1/inside"), Path("dirs/link"), Path("dirs/link/vol-1"),
                                    Path("dirs/file"), Path("outside/vol-1"), Path("outside"), Path("dirs/.")}) {
    EXPECT_FALSE(helper().Bind(BindOf(source, Target("x"))).ok()) << source;
    EXPECT_FALSE(Exists(Target("x"))) << source;
  }
  ASSERT_OK(helper().Bind(BindOf(Path("dirs/vol-1"), Target("staged"))));
  EXPECT_OK(helper().Bind(BindOf(Target("staged"), Target("bound"))));
  EXPECT_FALSE(helper().Bind(BindOf(Target("staged/inside"), Target("x"))).ok());
  EXPECT_OK(helper().Change({.target = Target("bound"), .flags = ReadOnly()}));
  // It lies on a filesystem of the host, so its options and size must not change.
  EXPECT_FALSE(helper().Change({.target = Target("staged"), .options = {{"commit", "30"}}}).ok());
  EXPECT_FALSE(helper().Grow(Target("staged"), "ext4").ok());
  ASSERT_EQ(::rmdir(Path("outside/vol-1").c_str()), 0);
}

// Mounts a directory elsewhere that has the name of a volume.
TEST_F(HelperGuardTest, ADirectoryWithTheNameOfAVolumeIsRefused) {
  Dir("dirs/vol-1");
  Dir("outside/vol-1");
  Dir("csi/theirs");
  ASSERT_EQ(::mount(Path("outside/vol-1").c_str(), Target("theirs").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_FALSE(helper().Bind(BindOf(Target("theirs"), Target("x"))).ok());
  EXPECT_FALSE(Exists(Target("x")));
  ASSERT_EQ(::umount(Target("theirs").c_str()), 0);
  ASSERT_EQ(::rmdir(Path("outside/vol-1").c_str()), 0);
}

TEST_F(HelperGuardTest, OnlyVolumesAreCopiedAndRemoved) {
  Dir("dirs/vol-1/inside");
  ASSERT_EQ(Tool("cd " + Path("dirs/vol-1") + " && echo data > f && chown 1234:2345 f && ln -s f link && mkfifo p"), 0);
  std::filesystem::create_directory_symlink(Path("outside"), Path("dirs/link"));
  for (const std::string& path : {Path("outside"), Path("dirs"), Path("dirs/vol-1/inside"), Path("volumes"),
                                  Path("own"), Path("dirs/link"), Path("dirs/../outside"), Path("csi")}) {
    EXPECT_FALSE(helper().RemoveTree(path).ok()) << path;
    EXPECT_FALSE(helper().CopyTree(path, Path("dirs/vol-2")).ok()) << path;
    EXPECT_FALSE(helper().CopyTree(Path("dirs/vol-1"), path).ok()) << path;
  }
  EXPECT_TRUE(Exists(Path("dirs/vol-1/inside")) && Exists(Image("a.img")));
  EXPECT_OK(helper().CopyTree(Path("dirs/vol-1"), Path("dirs/vol-2")));
  EXPECT_EQ(ReadFile(Path("dirs/vol-2/link")), "data\n");
  EXPECT_EQ(StatOf(Path("dirs/vol-2/f")).st_gid, 2345U);
  EXPECT_TRUE(S_ISFIFO(StatOf(Path("dirs/vol-2/p")).st_mode));
  EXPECT_OK(helper().RemoveTree(Path("dirs/vol-1")));
  EXPECT_FALSE(Exists(Path("dirs/vol-1")));
}

TEST_F(HelperGuardTest, OnlySubvolumesOfThePoolsAreTouched) {
  const std::string name = "vol-" + std::string(32, 'a');
  for (const std::string& pool : {Path("dirs"), Path("outside"), Path("pool/x"), Path("pool/../outside")}) {
    const std::string path = pool + "/" + name;
    EXPECT_THAT(helper().PrepareSubvolumes(pool), Refused("none of the pools"));
    const std::vector<absl::Status> refused = {
        helper().MakeSubvolumes({{.path = path}}),
        helper().MakeSubvolumes({{.path = Path("pool/") + name, .source = path}}), helper().LimitSubvolume(path, kMiB),
        helper().RemoveSubvolume(path)};
    const std::string why = pool.find("..") == std::string::npos ? "none of the pools" : "..";
    for (const absl::Status& status : refused) EXPECT_THAT(Message(status), HasSubstr(why));
  }
  Dir("pool");
  EXPECT_THAT(helper().RemoveSubvolume(Path("pool/") + name), Refused("does not lie on a btrfs"));
}

TEST_F(HelperGuardTest, OnlyVolumesOfTheLvmPoolsAreTouched) {
  const std::string name = "vol-" + std::string(32, 'a');
  for (const std::string pool : {"other", "mooring-test-group/thin", "mooring-test-group/../other", "", "--help"}) {
    EXPECT_THAT(helper().ReportLvm(pool), Refused("none of the pools of LVM"));
    EXPECT_THAT(helper().MakeLogicalVolume({.pool = pool, .name = name, .bytes = kMiB}), Refused("none of the pools"));
    EXPECT_THAT(helper().GrowLogicalVolume({pool, name}, kMiB), Refused("none of the pools"));
    EXPECT_THAT(helper().ActivateLogicalVolume({pool, name}), Refused("none of the pools"));
    EXPECT_THAT(helper().RemoveLogicalVolume({pool, name}), Refused("none of the pools"));
  }
  const LogicalVolumeName foreign = {"mooring-test-group", "root"};
  for (const absl::Status& status :
       {helper().MakeLogicalVolume({.pool = foreign.pool, .name = foreign.name, .bytes = kMiB}),
        helper().GrowLogicalVolume(foreign, kMiB), helper().ActivateLogicalVolume(foreign),
        helper().RemoveLogicalVolume(foreign)}) {
    EXPECT_FALSE(status.ok());
  }
}

TEST_F(HelperGuardTest, OnlyImagesInThePoolsOfEncryptedVolumesAreEncrypted) {
  const std::string id = "vol-" + std::string(32, 'a');
  Dir("encrypted/below");
  for (const std::string place : {"images/", "encrypted/below/", "encrypted/../images/", ""}) {
    const EncryptedVolume volume = {.carrier = Path(place + id + ".img"), .id = id};
    EXPECT_THAT(helper().MakeEncrypted({.volume = volume, .passphrase = "x", .label = "mooring-test:1"}),
                Refused("in one of the pools of encrypted volumes"));
    EXPECT_THAT(helper().ReportEncrypted(volume), Refused("in one of the pools of encrypted volumes"));
    EXPECT_THAT(helper().OpenEncrypted({.volume = volume, .passphrase = "x", .label = "mooring-test:1"}),
                Refused("in one of the pools of encrypted volumes"));
    EXPECT_THAT(helper().NoteRawEncrypted(volume), Refused("in one of the pools of encrypted volumes"));
  }
  EXPECT_THAT(helper().ReportEncrypted({.carrier = Path("encrypted/other.img"), .id = id}),
              Refused("in one of the pools of encrypted volumes"));
  for (const std::string foreign : {"root", "../x", "vol-1", ""}) {
    EXPECT_FALSE(helper().CloseEncrypted(foreign).ok()) << foreign;
    EXPECT_FALSE(helper().ResizeEncrypted(foreign).ok()) << foreign;
  }
}

TEST_F(HelperGuardTest, OnlyDirectoriesOfSizedPoolsAreLimited) {
  const std::string name = "vol-" + std::string(32, 'a');
  Dir("dirs/" + name);
  Dir("sized/" + name + "/" + name);
  for (const std::string& directory :
       {std::string("dirs"), std::string("outside"), "sized/" + name, std::string("sized/../outside")}) {
    EXPECT_FALSE(helper().LimitDirectory(Path(directory + "/" + name), kMiB).ok()) << directory;
  }
  EXPECT_THAT(helper().LimitDirectory(Path("dirs/" + name), kMiB), Refused("none of the pools"));
  std::filesystem::create_directory_symlink(Path("outside"), Path("sized/vol-" + std::string(32, 'b')));
  EXPECT_FALSE(helper().LimitDirectory(Path("sized/vol-" + std::string(32, 'b')), kMiB).ok());
  EXPECT_THAT(helper().LimitDirectory(Path("sized/data"), kMiB), FailsWith(StatusCode::kInvalidArgument, "no name"));
}

TEST_F(HelperGuardTest, TargetsInAVolumeDirectoryAreRefused) {
  Dir("dirs/vol-1");
  Dir("csi/alias");
  ASSERT_EQ(::mount(Path("dirs").c_str(), Target("alias").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_FALSE(helper().Bind(BindOf(Path("dirs/vol-1"), Path("dirs/x"))).ok());
  EXPECT_THAT(helper().Bind(BindOf(Path("dirs/vol-1"), Target("alias/x"))), Refused("possibly under another path"));
}

TEST_F(HelperGuardTest, EachReasonIsLoggedOnce) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(helper().Unmount(UnmountOf(Path("outside/" + std::to_string(i)))).ok());
    EXPECT_FALSE(helper().Probe(Path("outside/" + std::to_string(i))).ok());
  }
  const std::string log = HelperLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log, HasSubstr("refused a target outside the mount roots"));
  EXPECT_THAT(log, HasSubstr("refused a source that is no volume"));
}

}  // namespace
}  // namespace mooring::testing
