// Subvolumes of a pool on a real btrfs: their sizes, their snapshots, and what is left of them.
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <set>

#include "base/file/file_lock.h"
#include "mounter/subvolumes.h"
#include "tests/kernel/subvolume/subvolume_fixture.h"

namespace mooring::testing {
namespace {

TEST_F(SubvolumeTest, PreparingTurnsSimpleQuotasOn) {
  EXPECT_EQ(Quotas().mode(), BtrfsQuotas::Mode::kSimple);
  EXPECT_FALSE(Quotas().is_inconsistent());
  Made('a');
  EXPECT_OK(mounter_.PrepareSubvolumes(Path("pool")));
}

TEST_F(SubvolumeTest, PreparingChangesNoForeignQuotas) {
  ASSERT_EQ(Tool("btrfs quota disable " + Path("pool") + " && btrfs quota enable " + Path("pool")), 0);
  EXPECT_THAT(mounter_.PrepareSubvolumes(Path("pool")), Refused("full quotas"));
  EXPECT_EQ(Quotas().mode(), BtrfsQuotas::Mode::kFull);
}

TEST_F(SubvolumeTest, PreparingTurnsNoQuotasOnThatMissVolumes) {
  Made('a');
  ASSERT_EQ(Tool("btrfs quota disable " + Path("pool")), 0);
  EXPECT_THAT(mounter_.PrepareSubvolumes(Path("pool")), Refused("no simple quotas count them"));
  EXPECT_EQ(Quotas().mode(), BtrfsQuotas::Mode::kOff);
  EXPECT_THAT(mounter_.MakeSubvolumes({{.path = Volume('b'), .bytes = kMiB}}), Refused("quotas"));
  EXPECT_OK(mounter_.RemoveSubvolume(Volume('a')));
  EXPECT_THAT(EntriesOfPool(), IsEmpty());
}

TEST_F(SubvolumeTest, OnlyTheTopOfABtrfsIsAPool) {
  EXPECT_THAT(mounter_.PrepareSubvolumes(Dir("ext4")), Refused("does not lie on a btrfs"));
  const std::string volume = Made('a');
  EXPECT_THAT(mounter_.PrepareSubvolumes(volume), Refused("not the top of its btrfs"));
  EXPECT_THAT(mounter_.PrepareSubvolumes(Dir("pool/directory")), Refused("not the top of its btrfs"));
  EXPECT_THAT(mounter_.MakeSubvolumes({{.path = volume + "/" + NameOfVolume('b')}}), Refused("not the top"));
}

TEST_F(SubvolumeTest, ASubvolumeIsLimitedFromItsFirstByte) {
  const std::string volume = Made('a');
  const struct stat root = StatOf(volume);
  EXPECT_EQ(root.st_uid, 0U);
  EXPECT_EQ(root.st_mode & 07777U, 0755U);
  GivenToTenant(volume);
  EXPECT_TRUE(Fits(volume + "/small", 20));
  EXPECT_FALSE(Fits(volume + "/large", 20));
  EXPECT_LE(GroupOf('a')->used, 32 * kMiB);
  EXPECT_GE(GroupOf('a')->used, 20 * kMiB);
}

TEST_F(SubvolumeTest, RootIsLimitedAsWell) {
  const std::string volume = Made('a');
  EXPECT_NE(Tool("head -c 40M /dev/zero > " + volume + "/file 2>/dev/null && sync -f " + volume), 0);
}

TEST_F(SubvolumeTest, WhatATenantMakesInsideCountsForTheVolume) {
  const std::string volume = GivenToTenant(Made('a'));
  ASSERT_EQ(AsTenant("btrfs subvolume create " + volume + "/inner"), 0);
  EXPECT_TRUE(Fits(volume + "/inner/file", 15));
  ASSERT_EQ(AsTenant("btrfs subvolume snapshot " + volume + "/inner " + volume + "/copy"), 0);
  EXPECT_TRUE(Fits(volume + "/copy/more", 10));
  ASSERT_EQ(AsTenant("btrfs subvolume create " + volume + "/copy/deep"), 0);
  EXPECT_FALSE(Fits(volume + "/copy/deep/file", 10));
  EXPECT_FALSE(Quotas().is_inconsistent());
}

TEST_F(SubvolumeTest, AHigherLimitActsAtOnce) {
  const std::string volume = GivenToTenant(Made('a'));
  EXPECT_FALSE(Fits(volume + "/file", 40));
  ASSERT_OK(mounter_.LimitSubvolume(volume, 64 * kMiB));
  EXPECT_TRUE(Fits(volume + "/file", 40));
  EXPECT_EQ(GroupOf('a')->limit, 64 * kMiB);
  EXPECT_THAT(mounter_.LimitSubvolume(Volume('b'), kMiB), FailsWith(StatusCode::kNotFound, ""));
}

TEST_F(SubvolumeTest, MakingIsRepeatedWithoutHarm) {
  const std::string volume = Made('a');
  File("pool/" + NameOfVolume('a') + "/file", "data");
  EXPECT_EQ(Made('a', 64 * kMiB), volume);
  EXPECT_EQ(ReadFile(volume + "/file"), "data");
  EXPECT_EQ(GroupOf('a')->limit, 64 * kMiB);
}

TEST_F(SubvolumeTest, UsageIsThatOfTheVolumeAndNotOfTheFilesystem) {
  const std::string volume = GivenToTenant(Made('a'));
  ASSERT_TRUE(Fits(volume + "/file", 10));
  ASSERT_OK(mounter_.Bind(BindOf(volume, Dir("target"))));
  const auto stats = mounter_.Stats(Path("target"));
  ASSERT_OK(stats);
  EXPECT_EQ(stats->bytes.total, 32 * kMiB);
  EXPECT_GE(stats->bytes.used, 10 * kMiB);
  EXPECT_EQ(stats->bytes.available, 32 * kMiB - stats->bytes.used);
}

TEST_F(SubvolumeTest, ASnapshotHasWhatWasWrittenBeforeAndStaysSo) {
  const std::string volume = Made('a');
  File("pool/" + NameOfVolume('a') + "/file", "before");
  ASSERT_OK(Snapshot(volume, "snap-" + std::string(32, '1')));
  File("pool/" + NameOfVolume('a') + "/file", "after");
  const std::string copy = Path("pool/snap-") + std::string(32, '1') + "/file";
  EXPECT_EQ(ReadFile(copy), "before");
  EXPECT_EQ(TryWrite(copy, "x"), EROFS);
  EXPECT_THAT(Snapshot(volume, "snap-" + std::string(32, '1')), FailsWith(StatusCode::kAlreadyExists, ""));
}

TEST_F(SubvolumeTest, ACloneHasALimitOfItsOwn) {
  const std::string volume = GivenToTenant(Made('a', 64 * kMiB));
  ASSERT_TRUE(Fits(volume + "/file", 40));
  ASSERT_OK(mounter_.MakeSubvolumes({{.path = Volume('b'), .source = volume, .bytes = 32 * kMiB}}));
  EXPECT_EQ(std::filesystem::file_size(Volume('b') + "/file"), 40 * kMiB);
  EXPECT_TRUE(Fits(Volume('b') + "/more", 20));
  EXPECT_FALSE(Fits(Volume('b') + "/too much", 20));
  EXPECT_TRUE(Fits(volume + "/more", 20));
  EXPECT_FALSE(Quotas().is_inconsistent());
}

TEST_F(SubvolumeTest, RemovingLeavesNothingOfTheVolume) {
  const std::string before = Groups();
  const std::string volume = GivenToTenant(Made('a'));
  ASSERT_EQ(AsTenant(fmt::format("cd {} && mkdir d && btrfs subvolume create d/inner", volume)), 0);
  ASSERT_EQ(AsTenant(fmt::format("cd {} && echo x > d/inner/f && btrfs subvolume snapshot -r d/inner d/frozen && "
                                 "btrfs subvolume create d/inner/deep && chmod 000 d",
                                 volume)),
            0);
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
  EXPECT_THAT(EntriesOfPool(), IsEmpty());
  EXPECT_EQ(GroupOf('a'), std::nullopt);
  EXPECT_TRUE(Eventually([&] { return Groups() == before; })) << Groups();
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
}

TEST_F(SubvolumeTest, AFullSubvolumeWithOthersInsideIsRemoved) {
  const std::string volume = GivenToTenant(Made('a'));
  ASSERT_EQ(AsTenant("btrfs subvolume create " + volume + "/inner"), 0);
  EXPECT_FALSE(Fits(volume + "/inner/file", 40));
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
}

TEST_F(SubvolumeTest, AGroupThatASnapshotNeedsGoesWithTheSnapshot) {
  const std::string before = Groups();
  const std::string volume = GivenToTenant(Made('a'));
  ASSERT_TRUE(Fits(volume + "/file", 10));
  const std::string snapshot = "snap-" + std::string(32, '1');
  ASSERT_OK(Snapshot(volume, snapshot));
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
  EXPECT_EQ(GroupOf('a'), std::nullopt);
  EXPECT_EQ(std::filesystem::file_size(Path("pool/" + snapshot + "/file")), 10 * kMiB);
  EXPECT_OK(mounter_.RemoveSubvolume(Path("pool/" + snapshot)));
  EXPECT_TRUE(Eventually([&] { return mounter_.PrepareSubvolumes(Path("pool")).ok() && Groups() == before; }))
      << Groups();
}

TEST_F(SubvolumeTest, RemovingFinishesWhatWasBegun) {
  const std::string before = Groups();
  Made('a');
  std::filesystem::rename(Volume('a'), Volume('a') + ".deleting");
  Made('a');
  EXPECT_OK(mounter_.RemoveSubvolume(Volume('a')));
  EXPECT_THAT(EntriesOfPool(), IsEmpty());
  ASSERT_EQ(Tool(fmt::format("btrfs qgroup create 1/{} {}", GroupNumberOf(NameOfVolume('b')), Path("pool"))), 0);
  EXPECT_OK(mounter_.RemoveSubvolume(Volume('b')));
  EXPECT_TRUE(Eventually([&] { return Groups() == before; })) << Groups();
}

// By the name of what is left: the subvolume itself may have been made again, and be in use.
TEST_F(SubvolumeTest, ClearingWhatIsLeftSparesTheSubvolume) {
  const std::string volume = Made('a'), making = volume + ".making", deleting = volume + ".deleting";
  ASSERT_EQ(Tool("btrfs -q subvolume create " + deleting + " && mkdir " + making), 0);
  EXPECT_OK(mounter_.RemoveSubvolume(deleting));
  EXPECT_OK(mounter_.RemoveSubvolume(making));
  EXPECT_FALSE(Exists(deleting));
  EXPECT_TRUE(Exists(making)) << "the sign of an unfinished subvolume";
  EXPECT_EQ(GroupOf('a')->limit, 32 * kMiB);
  std::filesystem::rename(volume, making + "/" + NameOfVolume('a'));
  EXPECT_OK(mounter_.RemoveSubvolume(making));
  EXPECT_THAT(EntriesOfPool(), IsEmpty());
  EXPECT_EQ(GroupOf('a'), std::nullopt);
}

// A helper whose plugin was killed may still be at work.
TEST_F(SubvolumeTest, CallsWaitForAnotherOneOnTheSameSubvolume) {
  const std::string volume = Made('a');
  UniqueFd other(::open((Path("pool/") + std::string(kLockName)).c_str(), O_RDWR | O_CLOEXEC));
  const auto byte = static_cast<off_t>(GroupNumberOf(NameOfVolume('a')));
  ASSERT_OK(LockByte(other, byte, volume, std::chrono::milliseconds(0)));
  auto made = std::async(std::launch::async, [&] { return mounter_.MakeSubvolumes({{.path = volume}}); });
  EXPECT_THAT(mounter_.RemoveSubvolume(volume + ".deleting"), FailsWith(StatusCode::kAborted, volume));
  EXPECT_THAT(made.get(), FailsWith(StatusCode::kAborted, volume));
  made = std::async(std::launch::async, [&] { return mounter_.MakeSubvolumes({{.path = volume}}); });
  other.reset();
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
  EXPECT_OK(made.get());
}

// A call may take long: a snapshot writes the data of its source first.
TEST_F(SubvolumeTest, CallsDoNotWaitForAnotherOneInThePool) {
  Made('a');
  Made('b');
  const UniqueFd file(::open((Path("pool/") + std::string(kLockName)).c_str(), O_RDWR | O_CLOEXEC)),
      pool(::open(Path("pool").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(pool.get(), LOCK_EX), 0);
  ASSERT_OK(LockByte(file, static_cast<off_t>(GroupNumberOf(NameOfVolume('a'))), "a", std::chrono::milliseconds(0)));
  EXPECT_OK(mounter_.MakeSubvolumes({{.path = Volume('c')}}));
  EXPECT_OK(mounter_.RemoveSubvolume(Volume('b')));
}

TEST_F(SubvolumeTest, OtherSubvolumesAndDirectoriesAreLeftAlone) {
  const std::string other = Made('b');
  Dir("pool/" + NameOfVolume('c') + "/file");
  EXPECT_THAT(mounter_.RemoveSubvolume(Volume('c')), Refused("is no subvolume"));
  EXPECT_TRUE(Exists(Volume('c') + "/file"));
  EXPECT_THAT(mounter_.MakeSubvolumes({{.path = Volume('c'), .bytes = kMiB}}), Refused("is no subvolume"));
  EXPECT_FALSE(mounter_.RemoveSubvolume(Path("pool/tenant")).ok());
  Made('a');
  EXPECT_OK(mounter_.RemoveSubvolume(Volume('a')));
  EXPECT_TRUE(Exists(other));
  EXPECT_EQ(GroupOf('b')->limit, 32 * kMiB);
  EXPECT_THAT(mounter_.MakeSubvolumes({{.path = Volume('d'), .source = Path("elsewhere/x")}}),
              FailsWith(StatusCode::kInvalidArgument, "same pool"));
}

TEST_F(SubvolumeTest, AMountBelowIsNotRemoved) {
  const std::string volume = Made('a');
  ASSERT_EQ(::mount("none", Dir("pool/" + NameOfVolume('a') + "/m").c_str(), "tmpfs", 0, "size=64k"), 0);
  EXPECT_THAT(mounter_.RemoveSubvolume(volume), Refused("unmount it"));
  ASSERT_EQ(::umount((volume + "/m").c_str()), 0);
  EXPECT_OK(mounter_.RemoveSubvolume(volume));
}

// The writer makes step N in the first volume, then in the next ones. Each is durable before the next.
TEST_F(SubvolumeTest, SnapshotsOfAGroupAreOfOneInstant) {
  std::vector<std::string> volumes;
  for (const char digit : std::string("abcdef")) volumes.push_back(Made(digit));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int step = 1; !stop; ++step) {
      for (const std::string& volume : volumes) {
        const UniqueFd file(::open((volume + "/step").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        const std::string text = fmt::format("{:08}", step);
        EXPECT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        ::fdatasync(file.get());
      }
    }
  });
  const auto first_step = [&] { return std::stoi("0" + ReadFile(volumes.front() + "/step")); };
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    const int before = first_step();
    EXPECT_TRUE(Eventually([&] { return first_step() > before; })) << "nobody writes";
    std::vector<NewSubvolume> wanted;
    for (std::size_t i = 0; i < volumes.size(); ++i) {
      const std::string name = fmt::format("pool/snap-{:x}{:031}", i + 1, round);
      wanted.push_back({.path = Path(name), .source = volumes[i], .read_only = true});
    }
    EXPECT_OK(mounter_.MakeSubvolumes(wanted));
    std::vector<int> steps;
    std::set<std::string> instants;
    for (const NewSubvolume& each : wanted) {
      instants.insert(InstantOf(each.path));
      steps.push_back(std::stoi("0" + ReadFile(each.path + "/step")));
      EXPECT_EQ(TryWrite(each.path + "/more", "x"), EROFS);
    }
    EXPECT_GT(steps.front(), before);
    EXPECT_THAT(instants, ElementsAre(HasSubstr("Gen at creation")));
    EXPECT_TRUE(std::is_sorted(steps.rbegin(), steps.rend())) << ::testing::PrintToString(steps);
    EXPECT_LE(steps.front() - steps.back(), 1) << ::testing::PrintToString(steps);
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace mooring::testing
