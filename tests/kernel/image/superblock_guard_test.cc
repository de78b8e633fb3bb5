// Filesystems whose superblock would decide what the host does. Each one is made by the filesystem's own tools, or by
// a change of bytes. Each is tried in every call by which the kernel or a program would open it.
#include "mounter/superblock/superblock_guard.h"

#include "mounter/filesystem/identity.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

// "{}" in `craft` is the image, on which mkfs has run; "{0}.side" is for a second file.
struct HostileCase {
  std::string name;
  std::string fs_type;
  std::string craft;
  std::string piece;  // of the message: the field and its value
};

std::string Debugfs(const std::string& field, const std::string& value) {
  return fmt::format("debugfs -w -R 'set_super_value {} {}' {{0}} 2>/dev/null", field, value);
}

// The bytes of one field, at a place in the image. The checksum is then wrong, which the guard does not look at.
std::string Patch(std::uint64_t at, const std::string& octal) {
  return fmt::format("printf '{}' | dd of={{0}} bs=1 seek={} conv=notrunc status=none", octal, at);
}

constexpr std::uint64_t kBtrfsSuper = 65536;

std::vector<HostileCase> HostileCases() {
  const std::string two_of_btrfs =
      "truncate -s 128M {0}.side && mkfs.btrfs -q -f -K {0} {0}.side >/dev/null 2>&1 && rm {0}.side";
  return {
      {"JournalByUuid", "ext4", Debugfs("journal_uuid", "11111111-2222-3333-4444-555555555555"),
       "s_journal_uuid = 11111111-2222-3333-4444-555555555555"},
      {"JournalByDevice", "ext4", Debugfs("journal_inum", "0") + " && " + Debugfs("journal_dev", "0x0701"),
       "s_journal_dev = 0x701"},
      {"JournalInAnotherInode", "ext4", Debugfs("journal_inum", "12"), "s_journal_inum = 12"},
      {"JournalDevice", "ext4", "mke2fs -q -F -b 4096 -O journal_dev {0}", "(journal_dev)"},
      {"Mmp", "ext4", "tune2fs -O mmp -E mmp_update_interval=300 {0} >/dev/null 2>&1", "(mmp)"},
      {"MountOptions", "ext4", "tune2fs -E mount_opts=errors=panic {0} >/dev/null", "s_mount_opts = 'errors=panic'"},
      {"DefaultDebug", "ext4", "tune2fs -o debug {0} >/dev/null", "(debug)"},
      {"DefaultNoBarrier", "ext4", "tune2fs -o nobarrier {0} >/dev/null", "(nobarrier)"},
      {"DefaultUid16", "ext4", "tune2fs -o uid16 {0} >/dev/null", "(uid16)"},
      {"DefaultJournalData", "ext4", "tune2fs -o journal_data {0} >/dev/null", "(journal_data)"},
      {"DefaultWriteback", "ext4", "tune2fs -o journal_data_writeback {0} >/dev/null", "(journal_data_writeback)"},
      {"DefaultUnknown", "ext4", Debugfs("default_mount_opts", "0x100c"), "s_default_mount_opts = 0x100c"},
      {"SmallGroups", "ext4", "mkfs.ext4 -q -F -b 4096 -g 256 {0} >/dev/null 2>&1", "s_blocks_per_group = 256"},
      {"ExternalLog", "xfs", "truncate -s 64M {0}.side && mkfs.xfs -q -f -K -l logdev={0}.side {0} && rm {0}.side",
       "sb_logstart = 0"},
      {"Realtime", "xfs", "truncate -s 64M {0}.side && mkfs.xfs -q -f -K -r rtdev={0}.side {0} && rm {0}.side",
       "sb_rblocks = "},
      {"NeedsRepair", "xfs", Patch(216, "\\000\\000\\000\\033"), "(needsrepair)"},
      {"QuotaWithMetadataDirectory", "xfs", Patch(216, "\\000\\000\\001\\013") + " && " + Patch(176, "\\000\\003"),
       "sb_qflags = 0x3"},
      {"TwoDevices", "btrfs", two_of_btrfs, "num_devices = 2"},
      {"NoDevice", "btrfs", Patch(kBtrfsSuper + 136, "\\000"), "num_devices = 0"},
      {"Seed", "btrfs", "btrfstune -f -S 1 {0} >/dev/null", "(seeding)"},
      {"Replaced", "btrfs", Patch(kBtrfsSuper + 201, "\\000"), "dev_item.devid = 0"},
      {"MetadataDump", "btrfs", Patch(kBtrfsSuper + 60, "\\002"), "(metadump)"},
      {"ChangingUuid", "btrfs", Patch(kBtrfsSuper + 60, "\\020"), "(changing_fsid)"},
      {"Zoned", "btrfs", Patch(kBtrfsSuper + 189, "\\020"), "(zoned)"},
  };
}

class SuperblockGuardTest : public KernelTest {
 protected:
  std::string Crafted(const std::string& fs_type, const std::string& craft) const {
    std::string image = ImageOf(fs_type, "image");
    EXPECT_EQ(Tool(fmt::format(fmt::runtime(craft), image)), 0) << craft;
    return image;
  }
  absl::Status MountAs(const std::string& source, const std::string& fs_type) {
    return mounter_.Mount(MountOf(source, Path("target"), fs_type));
  }
  absl::Status Unmount() { return mounter_.Unmount(UnmountOf(Path("target"))); }
  std::string KernelOptions() const {
    const std::string device = std::filesystem::path(MountAt(Path("target"))->source).filename();
    return ReadFile("/proc/fs/ext4/" + device + "/options");
  }
};

class HostileSuperblockTest : public SuperblockGuardTest, public ::testing::WithParamInterface<HostileCase> {
 protected:
  void SetUp() override { image_ = Crafted(GetParam().fs_type, GetParam().craft); }
  void ExpectRefused(const absl::Status& status) const {
    EXPECT_THAT(status, Refused(GetParam().piece));
    EXPECT_TRUE(MountsBelow(dir_.path()).empty());
    EXPECT_FALSE(Exists(Path("target")));
  }
  std::string image_;
};

TEST_P(HostileSuperblockTest, IsNotMountedFromAnImage) {
  ExpectRefused(MountAs(image_, GetParam().fs_type));
  EXPECT_TRUE(NoLoopOver(image_));
}

TEST_P(HostileSuperblockTest, IsNotMountedFromADevice) { ExpectRefused(MountAs(Losetup(image_), GetParam().fs_type)); }

TEST_P(HostileSuperblockTest, IsNeitherCheckedNorGrown) {
  if (GetParam().fs_type != "ext4") return;  // the kernel checks and grows the others, mounted
  ExpectRefused(mounter_.Check(image_, "ext4"));
  ASSERT_EQ(::truncate(image_.c_str(), 64 * kMiB), 0);
  ExpectRefused(mounter_.Grow(image_, "ext4"));
  EXPECT_FALSE(Exists(image_ + ".undo"));
  ExpectRefused(mounter_.Check(Losetup(image_), "ext4"));
}

// A snapshot is a copy of the bytes, so nothing opens the filesystem in it.
TEST_P(HostileSuperblockTest, IsCopiedButGetsNoUuidAndTheCopyIsNotMounted) {
  ExpectRefused(RenewIdentity(image_, GetParam().fs_type, UniqueFd()));
  ASSERT_OK(mounter_.Copy({ImageCopyOf(image_, Path("copy"))}));
  ExpectRefused(MountAs(Path("copy"), GetParam().fs_type));
}

INSTANTIATE_TEST_SUITE_P(Cases, HostileSuperblockTest, ::testing::ValuesIn(HostileCases()),
                         [](const auto& test) { return test.param.fs_type + test.param.name; });

struct UsualCase {
  std::string name;
  std::string fs_type;
  std::string craft;
};

class UsualSuperblockTest : public SuperblockGuardTest, public ::testing::WithParamInterface<UsualCase> {};

TEST_P(UsualSuperblockTest, IsCheckedAndMounted) {
  const auto& [name, fs_type, craft] = GetParam();
  const std::string image = Crafted(fs_type, craft);
  ASSERT_OK(mounter_.Check(image, fs_type));
  ASSERT_OK(MountAs(image, fs_type));
  EXPECT_EQ(TryWrite(Path("target/file"), "data"), 0);
  ASSERT_OK(Unmount());
  ASSERT_TRUE(NoLoopOver(image));
  ASSERT_OK(MountAs(Losetup(image), fs_type));
}

std::vector<UsualCase> UsualCases() {
  const std::string ext4 = "mkfs.ext4 -q -F -b 4096 ", xfs = "mkfs.xfs -q -f -K ";
  return {
      {"OfDebian12", "ext4", "mkfs.ext4 -q -F {0}"},
      {"OfUbuntu2204", "ext4",
       ext4 + "-O has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize {0}"},
      {"OfUbuntu2404", "ext4", ext4 + "-O metadata_csum_seed,orphan_file {0}"},
      {"WithoutJournal", "ext4", ext4 + "-O ^has_journal {0}"},
      {"WithSmallBlocks", "ext4", "mkfs.ext4 -q -F -b 1024 {0}"},
      {"WithBigalloc", "ext4", ext4 + "-O bigalloc {0} >/dev/null 2>&1"},
      {"WithEncryptAndVerity", "ext4", ext4 + "-O encrypt,verity {0}"},
      {"WithFastCommit", "ext4", ext4 + "-O fast_commit {0}"},
      {"WithDefaultDiscard", "ext4", "tune2fs -o discard,bsdgroups,nodelalloc,block_validity {0} >/dev/null"},
      {"WithOrderedJournal", "ext4", "tune2fs -o journal_data_ordered {0} >/dev/null"},
      {"OfRhel9", "xfs", xfs + "-m reflink=1,bigtime=1,inobtcount=1 {0}"},
      {"WithRmap", "xfs", xfs + "-m rmapbt=1 {0}"},
      {"OfBtrfsProgs", "btrfs", "true {0}"},
      {"WithXxhash", "btrfs", "mkfs.btrfs -q -f -K --csum xxhash {0}"},
      {"Mixed", "btrfs", "mkfs.btrfs -q -f -K --mixed {0}"},
      {"WithAnotherUuid", "btrfs", "btrfstune -f -m {0} >/dev/null"},
  };
}

INSTANTIATE_TEST_SUITE_P(Cases, UsualSuperblockTest, ::testing::ValuesIn(UsualCases()),
                         [](const auto& test) { return test.param.fs_type + test.param.name; });

// A kernel that is built without them refuses these filesystems itself.
TEST_F(SuperblockGuardTest, QuotasAndCasefoldAreLeftToTheKernel) {
  const UsualCase cases[] = {
      {"", "ext4", "mkfs.ext4 -q -F -b 4096 -O quota,project -E quotatype=usrquota:grpquota:prjquota {0}"},
      {"", "ext4", "mkfs.ext4 -q -F -b 4096 -O casefold {0}"},
      {"", "xfs", Patch(176, "\\000\\003")},
  };
  for (const auto& [name, fs_type, craft] : cases) {
    const UniqueFd fd(::open(Crafted(fs_type, craft).c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_OK(CheckSuperblock(fd.get(), Path("image"), fs_type)) << craft;
  }
}

// The test reads the options and causes no error: an error under "panic" would stop this machine.
TEST_F(SuperblockGuardTest, NoImageChoosesWhatTheHostDoesAfterAnError) {
  for (const char* behaviour : {"panic", "continue", "remount-ro"}) {
    const std::string image = Ext4Image("image");
    ASSERT_EQ(Tool(fmt::format("tune2fs -e {} {} >/dev/null", behaviour, image)), 0);
    ASSERT_OK(MountAs(image, "ext4"));
    EXPECT_THAT(KernelOptions(), HasSubstr("errors=remount-ro")) << behaviour;
    ASSERT_OK(mounter_.Copy({ImageCopyOf(image, Path(behaviour))}));  // through another mount of the same superblock
    EXPECT_THAT(KernelOptions(), HasSubstr("errors=remount-ro")) << behaviour;
    ASSERT_OK(Unmount());
    ASSERT_TRUE(NoLoopOver(image));
  }
}

TEST_F(SuperblockGuardTest, ARequestMayChooseWhatHappensAfterAnError) {
  MountRequest request = MountOf(Ext4Image("image"), Path("target"));
  request.options = {{"errors", "continue"}};
  ASSERT_OK(mounter_.Mount(request));
  EXPECT_THAT(KernelOptions(), HasSubstr("errors=continue"));
}

TEST_F(SuperblockGuardTest, ANewExt4RemountsReadOnlyAfterAnError) {
  for (const char* name : {"first", "from the template"}) {
    const std::string image = Sparse("image", 32 * kMiB);
    ASSERT_OK(mounter_.Format({image, "ext4"}));
    EXPECT_EQ(Tool("dumpe2fs -h " + image + " 2>/dev/null | grep -q 'Errors behavior: *Remount read-only'"), 0) << name;
  }
}

// The journal holds another superblock, which replaces the one that was checked.
class ReplayedSuperblockTest : public SuperblockGuardTest {
 protected:
  std::string WithSuperblockInJournal(const std::string& craft) const {
    const std::string image = Ext4Image("image"), other = Path("other");
    const std::string script = fmt::format("jo\njw -b 0 {}\njc\n", Path("block"));
    EXPECT_EQ(Tool(fmt::format("cp {} {}", image, other)), 0);
    EXPECT_EQ(Tool(fmt::format(fmt::runtime(craft), other)), 0);
    EXPECT_EQ(Tool(fmt::format("dd if={} of={} bs=4096 count=1 status=none", other, Path("block"))), 0);
    EXPECT_EQ(Tool(fmt::format("debugfs -w -f {} {} >/dev/null 2>&1", File("script", script), image)), 0);
    EXPECT_EQ(Tool(fmt::format("dumpe2fs -h {} 2>/dev/null | grep -q needs_recovery", image)), 0);
    return image;
  }
};

TEST_F(ReplayedSuperblockTest, IsJudgedAfterTheCheckThatReplaysIt) {
  const std::string image = WithSuperblockInJournal("tune2fs -E mount_opts=noload {} >/dev/null");
  EXPECT_THAT(mounter_.Check(image, "ext4"), Refused("s_mount_opts"));
  EXPECT_FALSE(Exists(image + ".undo"));
  EXPECT_THAT(RenewIdentity(image, "ext4", UniqueFd()), Refused("s_mount_opts"));
}

TEST_F(ReplayedSuperblockTest, IsNotInForceInTheMountThatReplaysItAndIsRefusedByTheNext) {
  const std::string image =
      WithSuperblockInJournal("tune2fs -e panic {0} >/dev/null && tune2fs -E mount_opts=errors=panic {0} >/dev/null");
  ASSERT_OK(MountAs(image, "ext4"));
  EXPECT_THAT(KernelOptions(), HasSubstr("errors=remount-ro"));
  ASSERT_OK(Unmount());
  ASSERT_TRUE(NoLoopOver(image));
  EXPECT_THAT(MountAs(image, "ext4"), Refused("s_mount_opts"));
}

// Without -j, e2fsck would look for that journal on all devices of the host, and open it for writing.
TEST_F(ReplayedSuperblockTest, MakesE2fsckOpenNoOtherDevice) {
  const std::string uuid = "11111111-2222-3333-4444-555555555555";
  const std::string victim = Sparse("victim", 8 * kMiB);
  ASSERT_EQ(Tool(fmt::format("mke2fs -q -F -b 4096 -O journal_dev -U {} {}", uuid, victim)), 0);
  const std::string device = Losetup(victim);
  const std::string image = WithSuperblockInJournal(
      "debugfs -w -R 'set_super_value journal_inum 0' {0} 2>/dev/null && "
      "debugfs -w -R 'set_super_value journal_uuid " +
      uuid + "' {0} 2>/dev/null");
  const absl::Status checked = mounter_.Check(image, "ext4");
  EXPECT_FALSE(checked.ok());
  EXPECT_THAT(std::string(checked.message()), Not(HasSubstr(device)));
  EXPECT_FALSE(Exists(image + ".undo"));
}

}  // namespace
}  // namespace mooring::testing
