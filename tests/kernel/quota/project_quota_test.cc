// Directories with a size, on filesystems that enforce project quotas. tests/vm runs these with a kernel that has them.
#include "mounter/quota/project_quota.h"

#include <sys/statvfs.h>

#include <thread>

#include "mounter/subvolumes.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr std::uint64_t kDiskBytes = 320 * kMiB;

class QuotaTest : public KernelTest {
 protected:
  // False: the kernel, or the tools, have no such filesystem or quota.
  bool MountPool(const std::string& type, const std::string& options) {
    const std::string image = Path("pool.img"),
                      make = type == "ext4" ? "mkfs.ext4 -q -O quota,project " : "mkfs.xfs -q ";
    Dir("pool");
    return Tool("truncate -s " + std::to_string(kDiskBytes) + " " + image + " && " + make + image +
                " && mount -o loop" + options + " " + image + " " + Path("pool")) == 0 &&
           ::chmod(Path("pool").c_str(), 0711) == 0 && ::chmod(dir_.path().c_str(), 0711) == 0;
  }

  static std::string NameOf(char digit) { return "vol-" + std::string(32, digit); }
  std::string Volume(char digit) const { return Path("pool/" + NameOf(digit)); }
  UniqueFd Open(const std::string& path) const { return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }
  ProjectUsage Usage(char digit) const {
    const auto usage = UsageOfProject(Open(Path("pool")), ProjectOf(NameOf(digit)), "pool");
    EXPECT_OK(usage);
    return usage->value_or(ProjectUsage());
  }
  std::optional<ProjectMark> Mark(const std::string& path) const { return *MarkOf(Open(path), path); }

  std::string Made(char digit, std::uint64_t bytes = 16 * kMiB) {
    const std::string making = Volume(digit) + std::string(kMakingEnd);
    EXPECT_EQ(::mkdir(making.c_str(), 0755), 0);
    EXPECT_OK(mounter_.LimitDirectory(making, bytes));
    EXPECT_EQ(::rename(making.c_str(), Volume(digit).c_str()), 0);
    EXPECT_EQ(::chown(Volume(digit).c_str(), 1000, 1000), 0);
    return Volume(digit);
  }
  static int AsTenant(const std::string& command) {
    return Tool("setpriv --reuid 1000 --regid 1000 --clear-groups sh -c '" + command + "' >/dev/null 2>&1");
  }
  static bool Fits(const std::string& file, int mebibytes) {
    return AsTenant(fmt::format("dd if=/dev/zero of={} bs=1M count={} conv=fsync", file, mebibytes)) == 0;
  }
};

TEST_F(QuotaTest, AMarkIsKeptAndInherited) {
  if (!MountPool("xfs", "")) GTEST_SKIP() << "no xfs here";
  Dir("pool/vol");
  ASSERT_OK(SetMark(Open(Path("pool/vol")), {.project = kLastProject, .inherits = true}, "vol"));
  Dir("pool/vol/below");
  EXPECT_EQ(Mark(Path("pool/vol/below")), (ProjectMark{kLastProject, true}));
  EXPECT_EQ(Mark(Path("pool")), ProjectMark());
}

// The kernel moves no directory of another project to the top, and deep ones are moved there.
TEST_F(QuotaTest, ADeepDirectoryOfAnotherProjectIsRemoved) {
  if (!MountPool("xfs", "")) GTEST_SKIP() << "no xfs here";
  const std::string volume = Dir("pool/" + NameOf('a'));
  ASSERT_OK(SetMark(Open(volume), {.project = ProjectOf(NameOf('a')), .inherits = true}, volume));
  Dir("pool/" + NameOf('a') + "/out");
  ASSERT_OK(SetMark(Open(volume + "/out"), {}, volume));
  std::string deep = volume + "/out";
  for (int level = 0; level < 80; ++level) ASSERT_EQ(::mkdir((deep += "/d").c_str(), 0755), 0);
  ASSERT_OK(SetMark(Open(deep), {.project = 7, .inherits = true}, volume));
  ASSERT_EQ(::mkdir((deep + "/last").c_str(), 0755), 0);
  ASSERT_OK(mounter_.RemoveTree(volume));
  EXPECT_FALSE(Exists(volume));
}

TEST_F(QuotaTest, AFilesystemThatEnforcesNothingIsToldWhatToDo) {
  for (const char* type : {"xfs", "ext4"}) {
    if (!MountPool(type, "")) continue;  // without quota_v2 an ext4 with projects cannot be written to
    Dir("pool/" + NameOf('a'));
    EXPECT_THAT(mounter_.LimitDirectory(Volume('a'), kMiB), Refused("prjquota"));
    EXPECT_EQ(Mark(Volume('a')), ProjectMark());
    EXPECT_OK(mounter_.RemoveTree(Volume('a')));
    ASSERT_EQ(Tool("umount " + Path("pool")), 0);
  }
}

class EnforcedQuotaTest : public QuotaTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    QuotaTest::SetUp();
    if (!MountPool(GetParam(), ",prjquota")) GTEST_SKIP() << "this kernel has no project quotas of " << GetParam();
    ASSERT_OK(CheckEnforcesProjects(Open(Path("pool")), Path("pool")));
  }
};

INSTANTIATE_TEST_SUITE_P(Filesystems, EnforcedQuotaTest, ::testing::Values("xfs", "ext4"));

TEST_P(EnforcedQuotaTest, ADirectoryIsHeldToItsSize) {
  const std::string volume = Made('a');
  struct statvfs shown = {};
  ASSERT_EQ(::statvfs(volume.c_str(), &shown), 0);
  EXPECT_EQ(shown.f_blocks * shown.f_frsize, 16 * kMiB);
  EXPECT_TRUE(Fits(volume + "/one", 10));
  EXPECT_FALSE(Fits(volume + "/two", 10));
  ASSERT_OK(mounter_.LimitDirectory(volume, 32 * kMiB));
  EXPECT_TRUE(Fits(volume + "/two", 10));
  ASSERT_OK(mounter_.LimitDirectory(volume, kMiB));  // never shrinks
  EXPECT_EQ(Usage('a').most_bytes, 32 * kMiB);
}

TEST_P(EnforcedQuotaTest, TheLimitGoesWithTheDirectory) {
  const std::string volume = Made('a');
  EXPECT_TRUE(Fits(volume + "/one", 5));
  EXPECT_GE(Usage('a').bytes, 5 * kMiB);
  ASSERT_OK(mounter_.RemoveTree(volume));
  EXPECT_EQ(Usage('a').most_bytes + Usage('a').most_inodes, 0U);
  for (int i = 0; i < 200 && Usage('a').inodes != 0; ++i) ::usleep(50'000);  // xfs frees them a moment later
  EXPECT_EQ(Usage('a').inodes, 0U);
  EXPECT_TRUE(Fits(Made('a') + "/one", 10));
}

TEST_P(EnforcedQuotaTest, AProjectThatSomethingElseUsesIsLeftAlone) {
  const std::uint32_t project = ProjectOf(NameOf('a'));
  ASSERT_OK(LimitProject(Open(Path("pool")), project, 3 * kMiB, 77, "pool"));
  const std::string making = Volume('a') + std::string(kMakingEnd);
  Dir("pool/" + NameOf('a') + std::string(kMakingEnd));
  EXPECT_THAT(mounter_.LimitDirectory(making, kMiB), FailsWith(StatusCode::kAborted, "in use"));
  Dir("pool/theirs");
  ASSERT_OK(SetMark(Open(Path("pool/theirs")), {.project = project, .inherits = true}, "theirs"));
  ASSERT_OK(mounter_.RemoveTree(making));
  EXPECT_EQ(Usage('a').most_bytes, 3 * kMiB);
}

// A backup that was restored has no projects.
TEST_P(EnforcedQuotaTest, WhatIsLostIsSetAgain) {
  const std::string volume = Made('a');
  EXPECT_EQ(AsTenant("mkdir -p " + volume + "/deep/er && mkfifo " + volume + "/fifo && ln -s / " + volume + "/link"),
            0);
  EXPECT_TRUE(Fits(volume + "/deep/er/file", 10));
  for (const char* name : {"", "/deep", "/deep/er", "/deep/er/file"}) {
    ASSERT_OK(SetMark(Open(volume + name), {}, volume));
  }
  ASSERT_OK(LimitProject(Open(volume), ProjectOf(NameOf('a')), 0, 0, volume));
  EXPECT_LT(Usage('a').bytes, kMiB);
  ASSERT_OK(mounter_.LimitDirectory(volume, 16 * kMiB));
  EXPECT_EQ(Usage('a').most_bytes, 16 * kMiB);
  EXPECT_GE(Usage('a').bytes, 10 * kMiB);
  EXPECT_FALSE(Fits(volume + "/two", 10));
}

// A task makes files and directories while its volume gets its project.
TEST_P(EnforcedQuotaTest, WhatIsMadeMeanwhileIsCounted) {
  const std::string volume = Made('a', 160 * kMiB);
  ASSERT_EQ(AsTenant("mkdir " + volume + "/d && cd " + volume + "/d && seq 3000 | xargs touch"), 0);
  ASSERT_EQ(Tool("chattr -R -P -p 0 " + volume), 0);
  ASSERT_OK(LimitProject(Open(volume), ProjectOf(NameOf('a')), 0, 0, volume));
  std::thread task([&volume] {
    EXPECT_EQ(AsTenant("cd " + volume + " && for i in $(seq 300); do mkdir m$i && touch m$i/f t$i d/n$i || exit; done"),
              0);
  });
  while (!Exists(volume + "/t1")) ::usleep(1000);
  const absl::Status limited = mounter_.LimitDirectory(volume, 160 * kMiB);
  EXPECT_FALSE(Exists(volume + "/t300")) << "then this test shows nothing";
  task.join();
  ASSERT_OK(limited);
  EXPECT_EQ(Tool("! lsattr -R -p " + volume + " | grep -E '^ +0 '"), 0) << "something is not counted";
}

// ext4 lets CAP_SYS_RESOURCE exceed a limit.
TEST_P(EnforcedQuotaTest, ACopyIsHeldToItsSize) {
  const std::string volume = Made('a', 64 * kMiB), making = Volume('b') + std::string(kMakingEnd);
  ASSERT_TRUE(Fits(volume + "/file", 40));
  Dir("pool/" + NameOf('b') + std::string(kMakingEnd));
  ASSERT_OK(mounter_.LimitDirectory(making, 16 * kMiB));
  EXPECT_THAT(mounter_.CopyTree(volume, making), FailsWith(StatusCode::kResourceExhausted, "copy"));
  EXPECT_LE(Usage('b').bytes, 16 * kMiB);
}

// A new directory of such a pool would belong to its project, and could not be renamed.
TEST_P(EnforcedQuotaTest, APoolWithAProjectTakesNoNewDirectory) {
  const std::string volume = Made('a');
  ASSERT_OK(SetMark(Open(Path("pool")), {.project = 7, .inherits = true}, "pool"));
  const std::string making = Volume('b') + std::string(kMakingEnd);
  ASSERT_EQ(::mkdir(making.c_str(), 0755), 0);
  EXPECT_THAT(mounter_.LimitDirectory(making, kMiB), Refused("chattr -P -p 0"));
  EXPECT_OK(mounter_.LimitDirectory(volume, 32 * kMiB));
  ASSERT_OK(SetMark(Open(Path("pool")), {.project = 7, .inherits = false}, "pool"));
  EXPECT_OK(mounter_.LimitDirectory(making, kMiB)) << "nothing inherits it";
}

// docs/security.md says so: the limit is against accidents.
TEST_P(EnforcedQuotaTest, AHostileTenantCanLeaveTheLimit) {
  const std::string volume = Made('a');
  ASSERT_EQ(AsTenant("mkdir " + volume + "/out && chattr -P -p 0 " + volume + "/out"), 0);
  EXPECT_TRUE(Fits(volume + "/out/file", 40));
  EXPECT_NE(AsTenant("unshare --user --map-root-user chattr -p 0 " + volume), 0);
}

}  // namespace
}  // namespace mooring::testing
