// The parameter subDir: names of volumes on an NFS server, and directories that were there before.
#include <filesystem>
#include <fstream>

#include "plugin/catalog/volume_reconciler.h"
#include "tests/support/kernel.h"
#include "tests/unit/catalog/nfs_pool_fixture.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr VolumeMaking kRetained = {.on_delete = OnDelete::kRetain};

class NfsNames : public NfsPool {
 protected:
  void SetUp() override { OpenBoth(); }

  std::string At(const std::string& name) const { return shared_ / ".share/" + name; }

  // A directory as other programs have made it.
  void MakeOld(const std::string& name) const {
    fs::create_directory(At(name));
    std::ofstream(At(name + "/data")) << "old";
  }
  bool IsOld(const std::string& name) const {
    return fs::is_directory(fs::symlink_status(At(name))) && ReadFile(At(name + "/data")) == "old";
  }

  // As a kill leaves it in the middle of CreateVolume.
  std::string Interrupted(const VolumeMaking& making, const std::string& sub_dir) {
    VolumeTuning tuning;
    tuning.making = making;
    tuning.sub_dir = sub_dir;
    const std::string id = NewVolumeId(kTag);
    EXPECT_TRUE(*here_.store->Insert({.id = id, .name = "a", .fs_type = "nfs", .pool = "share", .tuning = tuning}));
    return id;
  }
};

TEST_F(NfsNames, ANewVolumeHasItsName) {
  const std::string id = Created(here_, "a", {}, "data");
  EXPECT_EQ(fs::read_symlink(At("data")), id);
  EXPECT_EQ(Created(there_, "a", {}, "data"), id);
  EXPECT_THAT(Create(there_, "a", {}, "other").status(), FailsWith(StatusCode::kAlreadyExists, "subDir 'data'"));
  EXPECT_THAT(Create(there_, "a", {}).status(), FailsWith(StatusCode::kAlreadyExists, "subDir 'data'"));
  EXPECT_THAT(Create(there_, "b", {}, "data").status(), FailsWith(StatusCode::kAlreadyExists, id));
  EXPECT_THAT(Names(), UnorderedElementsAre(id, "data")) << "the refused call left nothing";
  EXPECT_FALSE(here_.store->FindByName("b", kTag)->has_value());
  std::ofstream(At("data/file")) << "data";
  EXPECT_OK(there_.catalog.Delete(id, Patient()));
  EXPECT_THAT(Names(), UnorderedElementsAre());
}

TEST_F(NfsNames, AnExistingDirectoryBecomesAVolumeAndIsItselfAgain) {
  MakeOld("data");
  EXPECT_THAT(Create(here_, "a", {}, "data").status(), FailsWith(StatusCode::kAlreadyExists, "onDelete=retain"));
  EXPECT_TRUE(IsOld("data"));
  const std::string id = Created(here_, "a", kRetained, "data");
  EXPECT_TRUE(IsOld(id));
  EXPECT_EQ(fs::read_symlink(At("data")), id);
  EXPECT_OK(there_.catalog.Delete(id, Patient()));
  EXPECT_TRUE(IsOld("data"));
  EXPECT_THAT(Names(), UnorderedElementsAre("data"));
  EXPECT_TRUE(IsOld(Created(there_, "b", kRetained, "data"))) << "again";
}

TEST_F(NfsNames, AnArchivedVolumeFreesItsName) {
  const VolumeMaking archived = {.on_delete = OnDelete::kArchive};
  MakeOld("data");
  EXPECT_OK(here_.catalog.Delete(Created(here_, "a", archived, "data"), Patient()));
  EXPECT_THAT(Names(), UnorderedElementsAre("archived-data"));
  const std::string next = Created(here_, "b", archived, "data");
  EXPECT_THAT(here_.catalog.Delete(next, Patient()), FailsWith(StatusCode::kFailedPrecondition, "move it away"));
  EXPECT_TRUE(IsOld("archived-data"));
  EXPECT_EQ(fs::read_symlink(At("data")), next) << "the volume is as it was";
  EXPECT_TRUE(fs::is_directory(At(next)));
}

TEST_F(NfsNames, AnEmptyDirectoryIsTakenAsItIs) {
  fs::create_directory(At("data"));
  fs::permissions(At("data"), fs::perms(0750));
  EXPECT_THAT(Create(here_, "a", {}, "data").status(), FailsWith(StatusCode::kAlreadyExists, "onDelete=retain"));
  const std::string id = Created(here_, "a", kRetained, "data");
  EXPECT_EQ(fs::status(At(id)).permissions(), fs::perms(0750));
}

TEST_F(NfsNames, WhatIsNoDirectoryIsRefused) {
  const fs::path outside = own_ / "outside";
  fs::create_directory(outside);
  std::ofstream(At("file")) << "data";
  fs::create_symlink(outside, At("link"));
  fs::create_symlink("file", At("inner"));
  for (const std::string name : {"file", "link", "inner"}) {
    EXPECT_THAT(Create(here_, "a", kRetained, name).status(), FailsWith(StatusCode::kAlreadyExists, At(name)));
  }
  EXPECT_THAT(Names(), UnorderedElementsAre("file", "link", "inner"));
}

TEST_F(NfsNames, ACloneHasItsOwnName) {
  const std::string id = Created(here_, "a", kRetained, "data");
  std::ofstream(At(id + "/data")) << "old";
  here_.mounter.Fail("CopyTree", Internal("it copies before it looks at the name"));
  EXPECT_THAT(Clone(here_, "b", id, "data").status(), FailsWith(StatusCode::kAlreadyExists, id));
  MakeOld("before");
  EXPECT_THAT(Clone(here_, "b", id, "before").status(), FailsWith(StatusCode::kAlreadyExists, "take another name"));
  EXPECT_TRUE(IsOld("before"));
  fs::remove_all(At("before"));
  here_.mounter.ClearFaults();
  EXPECT_THAT(Names(), UnorderedElementsAre(id, "data"));
  const auto unnamed = Clone(here_, "b", id);
  ASSERT_OK(unnamed);
  EXPECT_THAT(Names(), UnorderedElementsAre(id, "data", unnamed->id));
  const auto named = Clone(here_, "c", id, "copy");
  ASSERT_OK(named);
  EXPECT_EQ(fs::read_symlink(At("copy")), named->id);
  EXPECT_OK(here_.catalog.Delete(named->id, Patient()));
  EXPECT_TRUE(IsOld("copy")) << "it inherits onDelete";
}

TEST_F(NfsNames, AFailedCreationGivesTheDirectoryItsNameBack) {
  VolumeLookup lookup(*here_.store, here_.snapshots, here_.pools, *here_.locks);
  VolumeRemover remover(*here_.store, lookup, here_.pools, here_.mounter);
  for (const bool has_link : {false, true}) {
    MakeOld("data");
    const std::string id = Interrupted(kRetained, "data");
    fs::rename(At("data"), At(id));
    if (has_link) fs::create_symlink(id, At("data"));
    EXPECT_OK(remover.RollBack(**here_.store->FindById(id), true));
    EXPECT_TRUE(IsOld("data"));
    EXPECT_THAT(Names(), UnorderedElementsAre("data"));
    EXPECT_FALSE(*here_.store->FindById(id));
    fs::remove_all(At("data"));
  }
}

TEST_F(NfsNames, AKillBeforeTheRenameChangesNothing) {
  MakeOld("data");
  const std::string id = Interrupted(kRetained, "data");
  EXPECT_OK(there_.catalog.ReconcilePool("share"));
  EXPECT_TRUE(IsOld("data"));
  EXPECT_FALSE(*here_.store->FindById(id));
}

TEST_F(NfsNames, AKillAfterTheRenameLosesNeitherDataNorName) {
  MakeOld("data");
  const std::string id = Interrupted(kRetained, "data");
  fs::rename(At("data"), At(id));
  EXPECT_THAT(Create(here_, "b", kRetained, "data").status(), FailsWith(StatusCode::kAlreadyExists, id));
  EXPECT_TRUE(IsOld(id));
  EXPECT_OK(there_.catalog.ReconcilePool("share"));
  EXPECT_EQ(fs::read_symlink(At("data")), id);
  EXPECT_THAT(Create(here_, "b", kRetained, "data").status(), FailsWith(StatusCode::kAlreadyExists, id));
  EXPECT_EQ(Created(here_, "a", kRetained, "data"), id);
  EXPECT_TRUE(IsOld(id));
}

TEST_F(NfsNames, AKillInADeletionLosesNeitherDataNorName) {
  MakeOld("data");
  const std::string id = Created(here_, "a", kRetained, "data");
  ASSERT_TRUE(*here_.store->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  fs::remove(At("data"));  // before the rename
  EXPECT_THAT(Create(here_, "b", kRetained, "data").status(), FailsWith(StatusCode::kAlreadyExists, id));
  EXPECT_OK(there_.catalog.ReconcilePool("share"));
  EXPECT_EQ(fs::read_symlink(At("data")), id);
  EXPECT_OK(there_.catalog.Delete(id, Patient()));
  EXPECT_TRUE(IsOld("data"));
  EXPECT_THAT(Names(), UnorderedElementsAre("data"));
}

TEST_F(NfsNames, AKillAfterTheDeletionLeavesNoLink) {
  const std::string id = Created(here_, "a", {}, "data");
  ASSERT_TRUE(*here_.store->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  fs::remove(At(id));
  EXPECT_OK(there_.catalog.ReconcilePool("share"));
  EXPECT_THAT(Names(), UnorderedElementsAre());
}

TEST_F(NfsNames, AnotherRequestDuringAnInterruptedCreationKeepsTheData) {
  MakeOld("data");
  const std::string id = Interrupted(kRetained, "data");
  fs::rename(At("data"), At(id));
  EXPECT_THAT(Create(here_, "a", {}, "").status(), FailsWith(StatusCode::kAlreadyExists, "onDelete=retain"));
  EXPECT_TRUE(IsOld(id));
}

TEST_F(NfsNames, ALinkOfADeletedVolumeIsNoHindrance) {
  fs::create_symlink(NewVolumeId(kTag), At("data"));
  const std::string id = Created(here_, "a", {}, "data");
  EXPECT_EQ(fs::read_symlink(At("data")), id);
}

TEST_F(NfsNames, ALinkToAVolumeThatIsThereStays) {
  const std::string unknown = NewVolumeId(kTag);  // the catalog is an older copy
  MakeOld(unknown);
  fs::create_symlink(unknown, At("data"));
  EXPECT_THAT(Create(here_, "a", kRetained, "data").status(), FailsWith(StatusCode::kAlreadyExists, unknown));
  EXPECT_EQ(fs::read_symlink(At("data")), unknown);
  EXPECT_TRUE(IsOld(unknown));
}

TEST_F(NfsNames, ADeletionLeavesALinkThatIsNotItsOwn) {
  const std::string id = Created(here_, "a", {}, "data");
  fs::remove(At("data"));
  MakeOld("data");
  EXPECT_OK(here_.catalog.Delete(id, Patient()));
  EXPECT_TRUE(IsOld("data"));
  const std::string next = Created(here_, "b", kRetained, "other");
  fs::remove(At("other"));
  MakeOld("other");
  EXPECT_THAT(here_.catalog.Delete(next, Patient()), FailsWith(StatusCode::kFailedPrecondition, "move it away"));
  EXPECT_TRUE(IsOld("other"));
  EXPECT_OK(here_.catalog.Get(next));
}

TEST_F(NfsNames, OfTwoCallsTheFirstRecordHasTheName) {
  const std::string first = Interrupted({}, "data");  // it is about to take the name
  EXPECT_THAT(Create(there_, "b", {}, "data").status(), FailsWith(StatusCode::kAlreadyExists, first));
  Created(there_, "c", {}, "data.2");
  EXPECT_EQ(Created(here_, "a", {}, "data").substr(0, 4), "vol-");
}

TEST_F(NfsNames, AReadyVolumeIsGivenAgainWhateverHasItsName) {
  const std::string id = Created(here_, "a", {}, "data");
  fs::remove(At("data"));
  EXPECT_EQ(Created(there_, "a", {}, "data"), id);
  EXPECT_EQ(fs::read_symlink(At("data")), id);
  fs::remove(At("data"));
  MakeOld("data");
  EXPECT_EQ(Created(there_, "a", {}, "data"), id);
  EXPECT_TRUE(IsOld("data"));
}

TEST_F(NfsNames, APoolInThePoolIsNotTaken) {
  fs::create_directories(At("team/.mooring"));
  EXPECT_THAT(Create(here_, "a", kRetained, "team").status(), FailsWith(StatusCode::kAlreadyExists, "is a pool"));
  EXPECT_TRUE(fs::is_directory(At("team/.mooring")));
}

TEST_F(NfsNames, TheRecordKeepsTheName) {
  VolumeTuning tuning;
  tuning.sub_dir = "web-data.1";
  EXPECT_EQ(TuningIn(ToText(tuning)), tuning);
  EXPECT_EQ(TuningIn("subDir=../outside").sub_dir, "");
}

}  // namespace
}  // namespace mooring::testing
