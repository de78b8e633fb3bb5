// ControllerPublishVolume and ControllerUnpublishVolume, in the catalog.
#include "plugin/catalog/volume_publications.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::catalog_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using VolumePublicationsTest = VolumeCatalogTest;

TEST_F(VolumePublicationsTest, PublishesOnceAndRefusesAnotherNodeOrAccess) {
  const std::string id = Created("db");
  ExpectStatus(catalog().Publish(PublishTo(NewVolumeId()), Patient()), absl::StatusCode::kNotFound, "does not exist");
  ExpectStatus(catalog().Publish(PublishTo("../x"), Patient()), absl::StatusCode::kNotFound, "does not exist");
  ExpectStatus(catalog().Publish(PublishTo(id, "n2"), Patient()), absl::StatusCode::kNotFound, "lives on node 'n1'");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  ExpectStatus(catalog().Publish(PublishTo(id, "n1", true), Patient()), absl::StatusCode::kAlreadyExists, "read-write");
  ControllerPublishSpec block = PublishTo(id);
  block.capability.access_type = AccessType::kBlock;
  ExpectStatus(catalog().Publish(block, Patient()), absl::StatusCode::kAlreadyExists, "block");
  EXPECT_THAT(catalog().Get(id)->published_nodes, ElementsAre("n1"));
}

TEST_F(VolumePublicationsTest, AModeForSeveralTasksIsPublishedReadOnlyAndReadWriteAtOnce) {
  const std::string id = Created("db");
  ControllerPublishSpec writer = PublishTo(id);
  writer.capability.mode = AccessMode::kMultiNodeMultiWriter;
  ControllerPublishSpec reader = PublishTo(id, "n1", true);
  reader.capability.mode = AccessMode::kMultiNodeReaderOnly;
  for (const ControllerPublishSpec* spec : {&writer, &reader, &writer, &reader}) {
    EXPECT_TRUE(catalog().Publish(*spec, Patient()).ok());
  }
  ControllerPublishSpec single = PublishTo(id, "n1", true);
  ExpectStatus(catalog().Publish(single, Patient()), absl::StatusCode::kAlreadyExists, "read-write");
}

TEST_F(VolumePublicationsTest, AnotherModeOrFlagsReplaceThePublication) {
  const std::string id = Created("db");
  ASSERT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  ControllerPublishSpec other = PublishTo(id);
  other.capability.mode = AccessMode::kMultiNodeMultiWriter;
  other.capability.options.flags.nosuid = true;
  EXPECT_TRUE(catalog().Publish(other, Patient()).ok());
  EXPECT_EQ(here().store->Publications(id)->front().capability, ToString(other.capability));
}

TEST_F(VolumePublicationsTest, APublicationToAnotherNodeIsNamed) {
  const std::string id = Created("db");
  ASSERT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  Process renamed(directory_, loops_, 0, "n2");
  const absl::Status status = renamed.catalog.Publish(PublishTo(id, "n2"), Patient());
  ExpectStatus(status, absl::StatusCode::kFailedPrecondition, "published to node 'n1'");
  EXPECT_TRUE(renamed.catalog.Unpublish({.volume_id = id, .node_id = "n1"}, Patient()).ok());
  EXPECT_TRUE(renamed.catalog.Publish(PublishTo(id, "n2"), Patient()).ok());
}

TEST_F(VolumePublicationsTest, TheLimitOfANodeCountsVolumesThatExist) {
  Process limited(directory_, loops_, 2);
  const std::string a = Created("a"), b = Created("b"), c = Created("c");
  EXPECT_TRUE(limited.catalog.Publish(PublishTo(a), Patient()).ok());
  EXPECT_TRUE(limited.catalog.Publish(PublishTo(b), Patient()).ok());
  ExpectStatus(limited.catalog.Publish(PublishTo(c), Patient()), absl::StatusCode::kResourceExhausted, "2 volumes");
  EXPECT_TRUE(limited.catalog.Publish(PublishTo(b), Patient()).ok());
  ControllerPublishSpec other_mode = PublishTo(b);
  other_mode.capability.mode = AccessMode::kSingleNodeMultiWriter;
  EXPECT_TRUE(Process(directory_, loops_, 1).catalog.Publish(other_mode, Patient()).ok());  // it has its place
  ASSERT_TRUE(limited.catalog.Unpublish({.volume_id = a, .node_id = "n1"}, Patient()).ok());
  ASSERT_TRUE(limited.catalog.Delete(a, Patient()).ok());
  EXPECT_TRUE(limited.catalog.Publish(PublishTo(c), Patient()).ok());
}

TEST_F(VolumePublicationsTest, UnpublishingIsIdempotent) {
  const std::string id = Created("db");
  ASSERT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  EXPECT_TRUE(catalog().Unpublish({.volume_id = id, .node_id = "n9"}, Patient()).ok());
  EXPECT_THAT(catalog().Get(id)->published_nodes, ElementsAre("n1"));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(catalog().Unpublish({.volume_id = id, .node_id = "n1"}, Patient()).ok());
  EXPECT_THAT(catalog().Get(id)->published_nodes, IsEmpty());
  ASSERT_TRUE(catalog().Publish(PublishTo(id, "n1", true), Patient()).ok());
  EXPECT_TRUE(catalog().Unpublish({.volume_id = id, .node_id = ""}, Patient()).ok());
  EXPECT_THAT(catalog().Get(id)->published_nodes, IsEmpty());
  EXPECT_TRUE(catalog().Unpublish({.volume_id = NewVolumeId(), .node_id = "n1"}, Patient()).ok());
  EXPECT_TRUE(catalog().Unpublish({.volume_id = "../x", .node_id = ""}, Patient()).ok());
}

}  // namespace
}  // namespace mooring::catalog_test
