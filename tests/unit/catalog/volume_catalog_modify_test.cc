// A change of a volume applies wholly or not at all, and is recorded before it is applied.
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
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
  ASSERT_OK(Modify(id, {.read_ahead_bytes = 4096}, apply));
  ASSERT_OK(Modify(id, {.noatime = true}, apply));
  EXPECT_EQ(told, (VolumeTuning{4096, true}));
  EXPECT_EQ(recorded, told);
  process_.reset();
  EXPECT_EQ(TuningOf(id), told) << "another process knows it";
}

TEST_F(VolumeCatalogModifyTest, AFailureRestoresRecordAndDevices) {
  const std::string id = Created("v");
  ASSERT_OK(Modify(id, {.read_ahead_bytes = 4096}));
  std::vector<VolumeTuning> told;
  const auto apply = [&](const NodeVolume& volume) {
    told.push_back(volume.tuning);
    return told.size() == 1 ? NotFound("the mount") : absl::OkStatus();
  };
  EXPECT_THAT(Modify(id, {.read_ahead_bytes = 8192, .noatime = true}, apply),
              FailsWith(StatusCode::kInternal, "the mount"));
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
  for (int i = 0; i < 3; ++i) ASSERT_OK(Modify(id, {.noatime = true}, apply));
  EXPECT_EQ(told, 3) << "a process may have been killed between the record and its mounts";
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
  ASSERT_OK(catalog().Reconcile());
  EXPECT_OK(catalog().Find(id));
  ASSERT_OK(catalog().Delete(id, Soon()));
  EXPECT_THAT(*here().store->ListEphemeral(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace mooring::testing
