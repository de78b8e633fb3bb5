// ControllerPublishVolume and ControllerUnpublishVolume, in the catalog.
#include "plugin/catalog/volume_publications.h"

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

using VolumePublicationsTest = VolumeCatalogTest;

TEST_F(VolumePublicationsTest, AModeForSeveralTasksIsPublishedReadOnlyAndReadWriteAtOnce) {
  const std::string id = Created("db");
  ControllerPublishSpec writer = PublishTo(id);
  writer.capability.mode = AccessMode::kMultiNodeMultiWriter;
  ControllerPublishSpec reader = PublishTo(id, "n1", true);
  reader.capability.mode = AccessMode::kMultiNodeReaderOnly;
  for (const ControllerPublishSpec* spec : {&writer, &reader, &writer, &reader}) {
    EXPECT_OK(catalog().Publish(*spec, Patient()));
  }
  ControllerPublishSpec single = PublishTo(id, "n1", true);
  EXPECT_THAT(catalog().Publish(single, Patient()), FailsWith(StatusCode::kAlreadyExists, "read-write"));
}

TEST_F(VolumePublicationsTest, AnotherModeOrFlagsReplaceThePublication) {
  const std::string id = Created("db");
  ASSERT_OK(catalog().Publish(PublishTo(id), Patient()));
  ControllerPublishSpec other = PublishTo(id);
  other.capability.mode = AccessMode::kMultiNodeMultiWriter;
  other.capability.options.flags.nosuid = true;
  EXPECT_OK(catalog().Publish(other, Patient()));
  EXPECT_EQ(here().store->Publications(id)->front().capability, ToString(other.capability));
}

TEST_F(VolumePublicationsTest, APublicationToAnotherNodeIsNamed) {
  const std::string id = Created("db");
  ASSERT_OK(catalog().Publish(PublishTo(id), Patient()));
  Process renamed(directory_, loops_, 0, "n2");
  const absl::Status status = renamed.catalog.Publish(PublishTo(id, "n2"), Patient());
  EXPECT_THAT(status, FailsWith(StatusCode::kFailedPrecondition, "published to node 'n1'"));
  EXPECT_OK(renamed.catalog.Unpublish({.volume_id = id, .node_id = "n1"}, Patient()));
  EXPECT_OK(renamed.catalog.Publish(PublishTo(id, "n2"), Patient()));
}

TEST_F(VolumePublicationsTest, UnpublishingFromAnotherNodeKeepsThePublication) {
  const std::string id = Created("db");
  ASSERT_OK(catalog().Publish(PublishTo(id), Patient()));
  EXPECT_OK(catalog().Unpublish({.volume_id = id, .node_id = "n9"}, Patient()));
  EXPECT_THAT(catalog().Get(id)->published_nodes, ElementsAre("n1"));
}

}  // namespace
}  // namespace mooring::testing
