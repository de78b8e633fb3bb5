// Subvolumes that are not held to a size, although their volume is.
#include "mounter/subvolume/strangers.h"

#include <sys/wait.h>

#include <csignal>

#include "base/deadline.h"
#include "tests/kernel/subvolume/subvolume_fixture.h"

namespace mooring::testing {
namespace {

class StrangersTest : public SubvolumeTest {
 protected:
  std::string Problem(const std::string& path) {
    const auto problem = mounter_.HealthProblem(path);
    return problem.ok() ? *problem : Message(problem.status());
  }
  // Takes the volume out of its group, as if somebody had turned the quotas off and on.
  void LeaveGroup(char digit) const {
    const std::string group = fmt::format("1/{}", GroupNumberOf(NameOfVolume(digit))), pool = Path("pool");
    ASSERT_EQ(Tool(fmt::format("btrfs qgroup remove --no-rescan 0/$(btrfs inspect-internal rootid {}) {} {} && "
                               "btrfs qgroup destroy {} {}",
                               Volume(digit), group, pool, group, pool)),
              0);
  }
};

// No driver can prevent it. If this fails, a new kernel does, and docs/security.md can promise more.
TEST_F(StrangersTest, ATenantCanLeaveItsSizeUntilTheNextLook) {
  const std::string volume = GivenToTenant(Made('a'));
  Made('b');
  ASSERT_TRUE(TenantMakes(volume, "none", 0));
  EXPECT_TRUE(Fits(volume + "/none0/file", 100)) << "more than its 32 MiB";
  ASSERT_TRUE(TenantMakes(volume, "other", GroupNumberOf(NameOfVolume('b'))));
  EXPECT_TRUE(Fits(volume + "/other0/file", 25));
  EXPECT_GE(GroupOf('b')->used, 25 * kMiB) << "counted for a volume of another tenant";
  EXPECT_FALSE(Fits(volume + "/file", 40));

  ASSERT_OK(mounter_.Bind(BindOf(volume, Dir("target"))));
  EXPECT_THAT(Problem(Path("target")), HasSubstr("2 subvolume(s)"));
  EXPECT_EQ(Problem(Path("target")), "");
  EXPECT_LT(GroupOf('b')->used, kMiB);
  EXPECT_GE(GroupOf('a')->used, 125 * kMiB);
  EXPECT_FALSE(Fits(volume + "/none0/more", 1));
  EXPECT_FALSE(Fits(volume + "/other0/more", 1));
  EXPECT_FALSE(Quotas().is_inconsistent());
}

// Its own volume may be in use nowhere, so that nobody looks at it.
TEST_F(StrangersTest, AStrangerIsPutBackByTheVolumeThatItCountsFor) {
  const std::string volume = GivenToTenant(Made('a')), victim = Made('b');
  ASSERT_EQ(AsTenant("btrfs -q subvolume create " + volume + "/inner"), 0);
  ASSERT_TRUE(TenantMakes(volume + "/inner", "other", GroupNumberOf(NameOfVolume('b'))));
  EXPECT_TRUE(Fits(volume + "/inner/other0/file", 25));
  ASSERT_OK(mounter_.Bind(BindOf(victim, Dir("target"))));
  EXPECT_THAT(Problem(Path("target")), HasSubstr("1 subvolume(s) that counted for its size"));
  EXPECT_EQ(Problem(Path("target")), "");
  EXPECT_LT(GroupOf('b')->used, kMiB);
  EXPECT_GE(GroupOf('a')->used, 25 * kMiB);
}

// Nothing tells it from a subvolume that the tenant of 'b' has deleted. docs/security.md says so.
TEST_F(StrangersTest, ADeletedStrangerCountsAsLongAsItsDataIsUsed) {
  const std::string volume = GivenToTenant(Made('a', 64 * kMiB)), victim = Made('b');
  ASSERT_TRUE(TenantMakes(volume, "other", GroupNumberOf(NameOfVolume('b'))));
  ASSERT_TRUE(Fits(volume + "/other0/file", 31));
  ASSERT_EQ(AsTenant(fmt::format("cd {} && btrfs -q subvolume snapshot other0 copy && rm other0/file && rmdir other0",
                                 volume)),
            0);
  ASSERT_OK(mounter_.Bind(BindOf(victim, Dir("target"))));
  EXPECT_TRUE(Eventually([&] { return Problem(Path("target")).find("deleted subvolumes count for 31 MiB") == 0; }))
      << Problem(Path("target"));
  ASSERT_OK(mounter_.RemoveSubvolume(volume));
  Groups();  // waits until the data is cleared
  EXPECT_LT(GroupOf('b')->used, kMiB);
  EXPECT_EQ(Problem(Path("target")), "");
}

TEST_F(StrangersTest, AReadLooksAtNoMoreThanItMay) {
  const std::string volume = GivenToTenant(Made('a'));
  const pid_t task = TenantStarts(volume, "in", GroupNumberOf(NameOfVolume('a')), 100);
  ASSERT_EQ(::waitpid(task, nullptr, 0), task);
  const UniqueFd root(::open(volume.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto problem = [&](std::size_t most) {
    return FindSubvolumeProblem(
        root, volume, NameOfVolume('a'), [] { return absl::UnknownError("not asked"); }, most);
  };
  EXPECT_THAT(*problem(100), HasSubstr("too many subvolumes"));
  EXPECT_EQ(*problem(300), "");
  const DeadlineScope over(DeadlineScope::Clock::now());
  EXPECT_THAT(*problem(300), HasSubstr("too many subvolumes"));
}

TEST_F(StrangersTest, AReadPutsBackNoMoreThanItMay) {
  const std::string volume = GivenToTenant(Made('a'));
  const pid_t task = TenantStarts(volume, "none", 0, kMostPutBack + 1);
  ASSERT_EQ(::waitpid(task, nullptr, 0), task);
  ASSERT_OK(mounter_.Bind(BindOf(volume, Dir("target"))));
  EXPECT_THAT(Problem(Path("target")), AllOf(HasSubstr("made 100 subvolume(s)"), HasSubstr("too many")));
  EXPECT_THAT(Problem(Path("target")), AllOf(HasSubstr("made 1 subvolume(s)"), Not(HasSubstr("too many"))));
  EXPECT_EQ(Problem(Path("target")), "");
}

TEST_F(StrangersTest, StrangersArePutBackAtTheStart) {
  const std::string volume = GivenToTenant(Made('a'));
  Made('b');
  ASSERT_TRUE(TenantMakes(volume, "other", GroupNumberOf(NameOfVolume('b'))));
  ASSERT_TRUE(Fits(volume + "/other0/file", 10));
  ASSERT_OK(mounter_.PrepareSubvolumes(Path("pool")));
  EXPECT_LT(GroupOf('b')->used, kMiB);
  EXPECT_GE(GroupOf('a')->used, 10 * kMiB);
}

TEST_F(StrangersTest, StrangersArePutBackBeforeADeletion) {
  const std::string volume = GivenToTenant(Made('a'));
  Made('b');
  ASSERT_TRUE(TenantMakes(volume, "other", GroupNumberOf(NameOfVolume('b'))));
  ASSERT_TRUE(Fits(volume + "/other0/file", 10));
  const UniqueFd used(::open((volume + "/other0/file").c_str(), O_RDONLY | O_CLOEXEC));  // so the data stays for now
  ASSERT_OK(mounter_.RemoveSubvolume(volume));
  EXPECT_LT(GroupOf('b')->used, kMiB);
}

TEST_F(StrangersTest, AGroupThatATaskKeepsJoiningIsRemoved) {
  const std::string other = GivenToTenant(Made('b', 512 * kMiB));
  Made('a', 512 * kMiB);
  const pid_t task = TenantStarts(other, "in", GroupNumberOf(NameOfVolume('a')), 1 << 30);
  const auto made = [&] { return Entries(other).size(); };
  for (int i = 0; i < 20; ++i) {
    const std::size_t before = made();
    EXPECT_TRUE(Eventually([&] { return made() > before; })) << "the task has ended";
    EXPECT_OK(mounter_.RemoveSubvolume(Volume('a')));
    Made('a', 512 * kMiB);
  }
  EXPECT_EQ(::kill(task, SIGKILL), 0);
  EXPECT_EQ(::waitpid(task, nullptr, 0), task);
}

TEST_F(StrangersTest, AVolumeWithoutItsGroupGetsNoLimitThatHoldsNothing) {
  const std::string volume = Made('a');
  LeaveGroup('a');
  EXPECT_THAT(mounter_.LimitSubvolume(volume, 64 * kMiB), Refused("clone it"));
  EXPECT_THAT(mounter_.MakeSubvolumes({{.path = volume, .bytes = 64 * kMiB}}), Refused("clone it"));
  EXPECT_EQ(GroupOf('a'), std::nullopt);
  ASSERT_EQ(Tool(fmt::format("btrfs qgroup create 1/{} {}", GroupNumberOf(NameOfVolume('a')), Path("pool"))), 0);
  ASSERT_OK(mounter_.Bind(BindOf(volume, Dir("target"))));
  EXPECT_THAT(Problem(Path("target")), HasSubstr("clone it"));
  ASSERT_OK(mounter_.MakeSubvolumes({{.path = Volume('b'), .source = volume, .bytes = 32 * kMiB}}));
  EXPECT_FALSE(Fits(GivenToTenant(Volume('b')) + "/file", 40));
}

}  // namespace
}  // namespace mooring::testing
