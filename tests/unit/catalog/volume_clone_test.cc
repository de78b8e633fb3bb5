// Volumes from snapshots and from volumes.
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

class VolumeCloneTest : public VolumeCatalogTest {
 protected:
  absl::StatusOr<VolumeInfo> Clone(const CreateVolumeSpec& spec) { return catalog().Create(spec, Patient()); }
  VolumeInfo Cloned(const CreateVolumeSpec& spec) {
    const auto volume = Clone(spec);
    EXPECT_OK(volume);
    return volume.ok() ? *volume : VolumeInfo();
  }
};

TEST_F(VolumeCloneTest, ACopyHasTheContentOfItsSource) {
  CreateVolumeSpec spec = Spec("db");
  spec.fs_type = "xfs";
  const std::string volume = catalog().Create(spec, Patient())->id;
  std::ofstream(Image(volume), std::ios::in | std::ios::out) << "content";
  const std::string snapshot = Snapped("s", volume);
  for (const ContentSource& source : {OfVolume(volume), OfSnapshot(snapshot)}) {
    const VolumeInfo clone = Cloned(CopySpec("of " + source.id, source));
    EXPECT_EQ(clone.source, source.id);
    EXPECT_EQ(clone.fs_type, "xfs");
    EXPECT_EQ(clone.bytes, 16 * kMiB) << "where no size is asked for, the source's";
    EXPECT_EQ(clone.pool, kDefaultPool);
    EXPECT_EQ(catalog().Get(clone.id)->source, source.id);
    EXPECT_EQ(ReadAll(Image(clone.id)), ReadAll(Image(volume)));
    EXPECT_EQ(here().contents.copied().back()[0].renew_fs_type, "xfs");
  }
  ExpectConsistent();
}

TEST_F(VolumeCloneTest, ACopyForBlockAccessAloneKeepsEveryByte) {
  CreateVolumeSpec spec = CopySpec("c", OfVolume(Created("db")));
  spec.is_mounted = false;
  Cloned(spec);
  EXPECT_EQ(here().contents.copied().back()[0].renew_fs_type, "");
}

TEST_F(VolumeCloneTest, TheSizeIsAtLeastTheSources) {
  const ContentSource source = OfVolume(Created("db"));
  EXPECT_EQ(Cloned(CopySpec("larger", source, {.required = 32 * kMiB, .limit = 32 * kMiB})).bytes, 32 * kMiB);
  EXPECT_EQ(std::filesystem::file_size(Image(Cloned(CopySpec("larger", source)).id)), 32 * kMiB);
  EXPECT_EQ(Cloned(CopySpec("smaller", source, {.required = kMiB, .limit = 64 * kMiB})).bytes, 16 * kMiB);
  EXPECT_EQ(Cloned(CopySpec("limited", source, {.required = 0, .limit = 16 * kMiB})).bytes, 16 * kMiB);
  for (const SizeRange& range : {SizeRange{0, 16 * kMiB - 1}, SizeRange{kMiB, 8 * kMiB}}) {
    EXPECT_THAT(Clone(CopySpec("no", source, range)), FailsWith(StatusCode::kOutOfRange, "16 MiB"));
  }
}

TEST_F(VolumeCloneTest, AnUnknownSourceIsNotFound) {
  const std::string volume = Created("db"), snapshot = Snapped("s", volume);
  for (const ContentSource& source : {OfVolume("x"), OfSnapshot("x"), OfVolume(NewVolumeId()),
                                      OfSnapshot(NewSnapshotId()), OfVolume(snapshot), OfSnapshot(volume)}) {
    EXPECT_THAT(Clone(CopySpec("c", source)), FailsWith(StatusCode::kNotFound, "does not exist"));
  }
  EXPECT_THAT(Listed(), SizeIs(1));
}

TEST_F(VolumeCloneTest, AnotherFilesystemThanTheSourcesIsRefused) {
  CreateVolumeSpec spec = CopySpec("c", OfVolume(Created("db")));
  spec.fs_type = "xfs";
  EXPECT_THAT(Clone(spec), FailsWith(StatusCode::kInvalidArgument, "was made for ext4"));
  spec.fs_type = "ext4";
  EXPECT_OK(Clone(spec));
}

TEST_F(VolumeCloneTest, TheSameNameAndSourceIsTheSameVolumeAlsoWhenTheSourceIsGone) {
  const std::string volume = Created("db"), snapshot = Snapped("s", volume);
  const std::string clone = Cloned(CopySpec("c", OfSnapshot(snapshot))).id;
  ASSERT_OK(here().snapshots.Delete(snapshot, Patient()));
  EXPECT_EQ(Cloned(CopySpec("c", OfSnapshot(snapshot))).id, clone);
  for (const ContentSource& source : {OfVolume(volume), OfSnapshot(NewSnapshotId()), ContentSource()}) {
    CreateVolumeSpec spec = CopySpec("c", source);
    EXPECT_THAT(Clone(spec), FailsWith(StatusCode::kAlreadyExists, snapshot));
  }
  EXPECT_THAT(Clone(CopySpec("db", OfSnapshot(snapshot))), FailsWith(StatusCode::kAlreadyExists, "no content source"));
}

TEST_F(VolumeCloneTest, CopiesAndTheirSourcesGoInAnyOrder) {
  const std::string volume = Created("db"), snapshot = Snapped("s", volume);
  const std::string clone = Cloned(CopySpec("c", OfSnapshot(snapshot))).id;
  ASSERT_OK(here().snapshots.Delete(snapshot, Patient()));
  ASSERT_OK(catalog().Delete(volume, Patient()));
  EXPECT_OK(catalog().Find(clone));
  ASSERT_OK(catalog().Delete(clone, Patient()));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(VolumeCloneTest, ACopyThatFailsLeavesNothingAndThawsItsSource) {
  const std::string volume = Created("db");
  here().contents.failure = Unavailable("the helper has ended");
  EXPECT_THAT(Clone(CopySpec("c", OfVolume(volume))), FailsWith(StatusCode::kUnavailable, "the helper"));
  EXPECT_THAT(here().contents.thawed(), ::testing::ElementsAre(Image(volume)));
  EXPECT_FALSE(*here().store->FindByName("c"));
  ExpectConsistent();
}

TEST_F(VolumeCloneTest, ASourceIsNotDeletedWhileItIsCopied) {
  const std::string volume = Created("db"), snapshot = Snapped("s", volume);
  std::vector<absl::Status> refused;
  here().backend.before = [&](const std::string& what) {
    if (what == "copy") refused.push_back(catalog().Delete(volume, Soon()));
    if (what == "copy") refused.push_back(here().snapshots.Delete(snapshot, Soon()));
    return absl::OkStatus();
  };
  Cloned(CopySpec("a", OfVolume(volume)));
  ASSERT_THAT(refused, SizeIs(2));
  EXPECT_TRUE(absl::IsAborted(refused[0])) << refused[0];
  EXPECT_OK(refused[1]) << "another source may go";
}

}  // namespace
}  // namespace mooring::testing
