// A change of a volume applies wholly or not at all, and is recorded before it is applied.
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::catalog_test {
namespace {

class VolumeCatalogModifyTest : public VolumeCatalogTest {
 protected:
  static absl::Status Nothing(const NodeVolume&) { return absl::OkStatus(); }
  absl::Status Modify(const std::string& id, const TuningChange& change, const VolumeCatalog::Apply& apply = Nothing) {
    return catalog().Modify({.volume_id = id, .change = change}, apply, Soon());
  }
  VolumeTuning TuningOf(const std::string& id) { return catalog().Find(id)->tuning; }
};

TEST_F(VolumeCatalogModifyTest, IsRecordedBeforeItIsApplied) {
  const std::string id = Created("v");
  VolumeTuning told, recorded;
  const auto apply = [&](const NodeVolume& volume) {
    told = volume.tuning;
    recorded = TuningOf(id);
    return absl::OkStatus();
  };
  ASSERT_TRUE(Modify(id, {.read_ahead_bytes = 4096}, apply).ok());
  ASSERT_TRUE(Modify(id, {.noatime = true}, apply).ok());
  EXPECT_EQ(told, (VolumeTuning{4096, true}));
  EXPECT_EQ(recorded, told);
  process_.reset();
  EXPECT_EQ(TuningOf(id), told) << "another process knows it";
}

TEST_F(VolumeCatalogModifyTest, AFailureRestoresRecordAndDevices) {
  const std::string id = Created("v");
  ASSERT_TRUE(Modify(id, {.read_ahead_bytes = 4096}).ok());
  std::vector<VolumeTuning> told;
  const auto apply = [&](const NodeVolume& volume) {
    told.push_back(volume.tuning);
    return told.size() == 1 ? NotFound("the mount") : absl::OkStatus();
  };
  ExpectStatus(Modify(id, {.read_ahead_bytes = 8192, .noatime = true}, apply), absl::StatusCode::kInternal,
               "the mount");
  EXPECT_THAT(told, ::testing::ElementsAre(VolumeTuning{8192, true}, VolumeTuning{4096, false}));
  EXPECT_EQ(TuningOf(id), (VolumeTuning{4096, false}));
}

TEST_F(VolumeCatalogModifyTest, TheSameChangeIsAppliedAgain) {
  const std::string id = Created("v");
  int told = 0;
  const auto apply = [&](const NodeVolume&) {
    ++told;
    return absl::OkStatus();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Modify(id, {.noatime = true}, apply).ok());
  EXPECT_EQ(told, 3) << "a process may have been killed between the record and its mounts";
}

TEST_F(VolumeCatalogModifyTest, AMissingVolumeIsNotFound) {
  ExpectStatus(Modify("vol-x", {.noatime = true}), absl::StatusCode::kNotFound, "does not exist");
  const std::string id = Created("v");
  ASSERT_TRUE(catalog().Delete(id, Soon()).ok());
  ExpectStatus(Modify(id, {.noatime = true}), absl::StatusCode::kNotFound, "does not exist");
}

TEST_F(VolumeCatalogModifyTest, CreateRecordsMutableParametersAndDoesNotCompareThemLater) {
  CreateVolumeSpec spec = Spec("v");
  spec.tuning = {.read_ahead_bytes = 4096, .noatime = true};
  const std::string id = catalog().Create(spec, Soon())->id;
  EXPECT_EQ(TuningOf(id), (VolumeTuning{4096, true}));
  spec.tuning = {};
  EXPECT_EQ(catalog().Create(spec, Soon())->id, id);
  EXPECT_EQ(TuningOf(id), (VolumeTuning{4096, true}));
}

TEST_F(VolumeCatalogModifyTest, AnEphemeralVolumeIsNotListedAndNotReportedAsUnknown) {
  CreateVolumeSpec spec = Spec("e");
  spec.ephemeral = "csi-1";
  const std::string id = catalog().Create(spec, Soon())->id, other = Created("v");
  EXPECT_THAT(Listed(), ::testing::ElementsAre(other));
  const auto ephemeral = here().store->ListEphemeral();
  ASSERT_EQ(ephemeral->size(), 1U);
  EXPECT_EQ(ephemeral->front().id, id);
  EXPECT_EQ(ephemeral->front().ephemeral, "csi-1");
  ASSERT_TRUE(catalog().Reconcile().ok());
  EXPECT_TRUE(catalog().Find(id).ok());
  ASSERT_TRUE(catalog().Delete(id, Soon()).ok());
  EXPECT_THAT(*here().store->ListEphemeral(), ::testing::IsEmpty());
}

TEST_F(VolumeCatalogModifyTest, GetAndListReportProblemsOfAnImage) {
  const std::string id = Created("v");
  EXPECT_EQ(catalog().Get(id)->problem, "");
  std::filesystem::resize_file(Image(id), kMiB);
  EXPECT_THAT(catalog().Get(id)->problem, ::testing::HasSubstr("is cut short: 1048576 bytes of 16777216"));
  std::filesystem::remove(Image(id));
  EXPECT_THAT(catalog().List({})->volumes.front().problem, ::testing::HasSubstr("put it back"));
}

}  // namespace
}  // namespace mooring::catalog_test
