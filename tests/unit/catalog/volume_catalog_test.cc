#include "plugin/catalog/volume_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::catalog_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// CreateVolume

TEST_F(VolumeCatalogTest, AVolumeIsCreatedOnceForItsName) {
  const absl::StatusOr<VolumeInfo> first = catalog().Create(Spec("db"), Patient());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(IsVolumeId(first->id));
  EXPECT_EQ(first->bytes, 16 * kMiB);
  EXPECT_EQ(first->fs_type, "ext4");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(catalog().Create(Spec("db"), Patient())->id, first->id);
  EXPECT_THAT(Files(), ElementsAre(first->id + ".img"));
  const absl::StatusOr<NodeVolume> found = catalog().Find(first->id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path, Image(first->id));
  EXPECT_EQ(found->bytes, 16 * kMiB);
  EXPECT_EQ(found->fs_type, "ext4");
}

TEST_F(VolumeCatalogTest, NamesNeverBecomePaths) {
  std::set<std::string> ids;
  for (const std::string& name :
       {std::string("../../escape"), std::string(128, 'x'), std::string("a/b"), std::string("."),
        std::string("\xF0\x9F\x98\x80"), std::string("a'b\"c"), std::string("%n")}) {
    ids.insert(Created(name));
  }
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_EQ(Files().size(), 7u);
  ExpectConsistent();
}

TEST_F(VolumeCatalogTest, TheSameNameForSomethingElseAlreadyExists) {
  Created("db");
  CreateVolumeSpec xfs = Spec("db");
  xfs.fs_type = "xfs";
  ExpectStatus(catalog().Create(xfs, Patient()).status(), absl::StatusCode::kAlreadyExists, "filesystem ext4, and xfs");
  ExpectStatus(catalog().Create(Spec("db", {.required = 17 * kMiB, .limit = 0}), Patient()).status(),
               absl::StatusCode::kAlreadyExists, "16 MiB, and at least 17 MiB");
  ExpectStatus(catalog().Create(Spec("db", {.required = 1, .limit = 15 * kMiB}), Patient()).status(),
               absl::StatusCode::kAlreadyExists, "16 MiB");
  CreateVolumeSpec large = Spec("db", {});
  large.minimum_bytes = 300 * kMiB;
  ExpectStatus(catalog().Create(large, Patient()).status(), absl::StatusCode::kAlreadyExists, "at least 300 MiB");
  CreateVolumeSpec elsewhere = Spec("db");
  elsewhere.topologies = {{{kZoneKey, "b"}}};
  ExpectStatus(catalog().Create(elsewhere, Patient()).status(), absl::StatusCode::kAlreadyExists, "zone=a");
  EXPECT_TRUE(catalog().Create(Spec("db", {.required = 1, .limit = 20 * kMiB}), Patient()).ok());
}

TEST_F(VolumeCatalogTest, PropagationIsKeptAndComparedForTheSameName) {
  CreateVolumeSpec spec = Spec("db");
  spec.propagation = Propagation::kSlave;
  const auto made = catalog().Create(spec, Patient());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->propagation, Propagation::kSlave);
  EXPECT_EQ(catalog().Create(spec, Patient())->id, made->id);
  EXPECT_EQ(catalog().Get(made->id)->propagation, Propagation::kSlave);
  EXPECT_EQ(catalog().Find(made->id)->propagation, Propagation::kSlave);
  ExpectStatus(catalog().Create(Spec("db"), Patient()).status(), absl::StatusCode::kAlreadyExists,
               "propagation rslave, and none is asked for");
}

TEST_F(VolumeCatalogTest, CompatibilityComesBeforeCapacity) {
  Created("db");
  ExpectStatus(catalog().Create(Spec("db", {.required = 20 * kTiB, .limit = 0}), Patient()).status(),
               absl::StatusCode::kAlreadyExists, "16 MiB");
}

TEST_F(VolumeCatalogTest, ImpossibleSizesAreOutOfRangeAndLeaveNothing) {
  const std::uint64_t available = here().backend.Capacity()->available;
  for (const SizeRange& range : {SizeRange{.required = 20 * kTiB, .limit = 0}, SizeRange{.required = 1, .limit = kMiB},
                                 SizeRange{.required = available + kTiB, .limit = 0}}) {
    EXPECT_TRUE(absl::IsOutOfRange(catalog().Create(Spec("db", range), Patient()).status())) << RangeText(range);
  }
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_FALSE(here().store->FindByName("db")->has_value());
  Created("db");  // the name is free
}

TEST_F(VolumeCatalogTest, AVolumeIsCreatedOnlyForAReachableTopology) {
  CreateVolumeSpec spec = Spec("db");
  spec.topologies = {{{kZoneKey, "b"}}, {{"other/zone", "a"}}, {{kZoneKey, "a"}, {"other/rack", "1"}}};
  const absl::Status status = catalog().Create(spec, Patient()).status();
  ExpectStatus(status, absl::StatusCode::kResourceExhausted, "topology.mooring.csi/zone=a");
  EXPECT_THAT(Message(status), HasSubstr("topology.mooring.csi/node=n1"));
  EXPECT_THAT(Files(), IsEmpty());
  spec.topologies.push_back({{kZoneKey, "a"}});
  EXPECT_TRUE(catalog().Create(spec, Patient()).ok());
  CreateVolumeSpec anywhere = Spec("anywhere");
  anywhere.topologies = {{}};
  EXPECT_TRUE(catalog().Create(anywhere, Patient()).ok());
}

TEST_F(VolumeCatalogTest, AFullDiskLeavesNothing) {
  here().backend.before = [](const std::string& what) {
    return what == "create" ? ResourceExhausted("create: No space left on device") : absl::OkStatus();
  };
  ExpectStatus(catalog().Create(Spec("db"), Patient()).status(), absl::StatusCode::kResourceExhausted, "No space");
  ExpectConsistent();
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(VolumeCatalogTest, TheNextCallCleansUpIfTheFailedOneCannot) {
  here().backend.before = [](const std::string&) { return ResourceExhausted("No space left on device"); };
  ExpectStatus(catalog().Create(Spec("db"), Patient()).status(), absl::StatusCode::kResourceExhausted, "No space");
  here().backend.before = nullptr;
  EXPECT_TRUE(catalog().Create(Spec("db", {.required = 17 * kMiB, .limit = 0}), Patient()).ok());
  ExpectConsistent();
}

TEST_F(VolumeCatalogTest, CallsForOneNameWaitForEachOtherAndNoLongerThanTheirDeadline) {
  std::atomic<bool> creating = false, go_on = false;
  here().backend.before = [&](const std::string&) {
    creating = true;
    while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  };
  absl::StatusOr<VolumeInfo> slow;
  std::thread thread([&] { slow = catalog().Create(Spec("db"), Patient()); });
  while (!creating) std::this_thread::yield();
  ExpectStatus(catalog().Create(Spec("db"), Soon()).status(), absl::StatusCode::kAborted, "for 'db' is");
  // No list shows it before it is ready.
  EXPECT_THAT(Listed(), IsEmpty());
  go_on = true;
  thread.join();
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(catalog().Create(Spec("db"), Patient())->id, slow->id);
}

// DeleteVolume

TEST_F(VolumeCatalogTest, DeletingIsIdempotent) {
  const std::string id = Created("db");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
  EXPECT_THAT(Files(), IsEmpty());
  for (const std::string& unknown : {NewVolumeId(), std::string("../x"), std::string("name:db"), std::string("a\0b", 3),
                                     std::string(100'000, 'v')}) {
    EXPECT_TRUE(catalog().Delete(unknown, Patient()).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(catalog().Find(id).status()));
  EXPECT_NE(Created("db"), id);
}

TEST_F(VolumeCatalogTest, AVolumeInUseIsNotDeletedAndStaysUsable) {
  const std::string id = Created("db");
  ASSERT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  ASSERT_TRUE(loops_.AttachLoop({.backing_file = Image(id), .label = "", .read_only = false}).ok());
  ExpectStatus(catalog().Delete(id, Patient()), absl::StatusCode::kFailedPrecondition, "/dev/loop7");
  ExpectStatus(catalog().Delete(id, Patient()), absl::StatusCode::kFailedPrecondition, "published to node 'n1'");
  ASSERT_TRUE(catalog().Find(id).ok());
  EXPECT_THAT(catalog().Get(id)->published_nodes, ElementsAre("n1"));
  ASSERT_TRUE(loops_.DetachLoop(loops_.FindLoops(Image(id))->front()).ok());
  ASSERT_TRUE(catalog().Unpublish({.volume_id = id, .node_id = "n1"}, Patient()).ok());
  EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
  ExpectConsistent();
}

// Some orchestrators never unpublish a volume whose plugin was down, so the error has the command for it.
TEST_F(VolumeCatalogTest, APublishedVolumeIsNotDeletedAndTheErrorSaysHowToUnpublishIt) {
  const std::string id = Created("db");
  ASSERT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  const absl::Status refused = catalog().Delete(id, Patient());
  ExpectStatus(refused, absl::StatusCode::kFailedPrecondition, "published to node 'n1'");
  EXPECT_THAT(Message(refused), HasSubstr("mooring csi controller-unpublish " + id + " --node n1"));
  EXPECT_TRUE(catalog().Find(id).ok());
  EXPECT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok()) << "to the same node again";
  ASSERT_TRUE(catalog().Unpublish({.volume_id = id, .node_id = "n1"}, Patient()).ok());
  EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
  ExpectConsistent();
}

TEST_F(VolumeCatalogTest, APublicationDuringADeletionHoldsTheVolumeOrFails) {
  for (int round = 0; round < 20; ++round) {
    const std::string id = Created("db");
    absl::Status published;
    std::thread publisher([&] { published = catalog().Publish(PublishTo(id), Patient()); });
    const absl::Status deleted = catalog().Delete(id, Patient());
    publisher.join();
    EXPECT_NE(published.ok(), deleted.ok()) << published << deleted;
    EXPECT_EQ(catalog().Find(id).ok(), published.ok());
    ASSERT_TRUE(catalog().Unpublish({.volume_id = id, .node_id = ""}, Patient()).ok());
    ASSERT_TRUE(catalog().Delete(id, Patient()).ok());
  }
}

TEST_F(VolumeCatalogTest, DeletingWaitsForOtherCallsOnTheVolume) {
  const std::string id = Created("db");
  const auto stage = here().locks->Acquire(id, "volume", Patient().wait_until);
  ExpectStatus(catalog().Delete(id, Soon()), absl::StatusCode::kAborted, id);
  EXPECT_TRUE(catalog().Find(id).ok());
}

TEST_F(VolumeCatalogTest, AFailedDeletionCanBeRepeated) {
  const std::string id = Created("db");
  here().backend.before = [](const std::string&) { return Internal("I/O error"); };
  ExpectStatus(catalog().Delete(id, Patient()), absl::StatusCode::kInternal, "I/O error");
  EXPECT_TRUE(catalog().Find(id).ok());
  here().backend.before = nullptr;
  here().backend.after = [](const std::string&) { return Internal("sync: I/O error"); };  // the image is gone
  ExpectStatus(catalog().Delete(id, Patient()), absl::StatusCode::kInternal, "sync");
  EXPECT_TRUE(absl::IsNotFound(catalog().Find(id).status()));
  EXPECT_THAT(Listed(), IsEmpty());
  here().backend.after = nullptr;
  EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
  ExpectConsistent();
}

// The volume exists until DeleteVolume has answered OK.
TEST_F(VolumeCatalogTest, AHalfDeletedVolumeKeepsItsNameAsLongAsItHasItsImage) {
  for (const bool has_image : {true, false}) {
    const std::string id = Created("db");
    ASSERT_TRUE(*here().store->Move(id, VolumeState::kReady, VolumeState::kDeleting));
    EXPECT_TRUE(absl::IsNotFound(catalog().Find(id).status()));
    if (!has_image) std::filesystem::remove(Image(id));
    EXPECT_EQ(Created("db") == id, has_image);
    ExpectConsistent();
  }
}

TEST_F(VolumeCatalogTest, AHalfDeletedVolumeThatIsInUseKeepsItsName) {
  const std::string id = Created("db");
  ASSERT_TRUE(*here().store->Move(id, VolumeState::kReady, VolumeState::kDeleting));
  ASSERT_TRUE(loops_.AttachLoop({.backing_file = Image(id), .label = "", .read_only = false}).ok());
  const absl::StatusOr<VolumeInfo> back = catalog().Create(Spec("db"), Patient());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, id);  // it came back, whole
}

// ControllerExpandVolume

TEST_F(VolumeCatalogTest, ExpandingGivesTheRequestedSize) {
  const std::string id = Created("db");
  const auto expand = [&](std::uint64_t required, std::uint64_t limit) {
    return catalog().Expand({.volume_id = id, .range = {.required = required, .limit = limit}}, Patient());
  };
  EXPECT_EQ(*expand(32 * kMiB, 32 * kMiB), 32 * kMiB);
  EXPECT_EQ(catalog().Find(id)->bytes, 32 * kMiB);
  EXPECT_EQ(catalog().Get(id)->bytes, 32 * kMiB);
  EXPECT_EQ(*expand(32 * kMiB, 0), 32 * kMiB);
  EXPECT_EQ(*expand(20 * kMiB, 64 * kMiB), 32 * kMiB);
  EXPECT_TRUE(absl::IsOutOfRange(expand(20 * kMiB, 24 * kMiB).status()));
  EXPECT_TRUE(absl::IsOutOfRange(expand(20 * kTiB, 0).status()));
  EXPECT_TRUE(absl::IsOutOfRange(expand(here().backend.Capacity()->available + kTiB, 0).status()));
  EXPECT_EQ(catalog().Get(id)->bytes, 32 * kMiB);
  EXPECT_EQ(catalog().Find(id)->bytes, 32 * kMiB);
  for (const std::string& unknown : {NewVolumeId(), std::string("../x")}) {
    EXPECT_TRUE(absl::IsNotFound(
        catalog().Expand({.volume_id = unknown, .range = {.required = kGiB, .limit = 0}}, Patient()).status()));
  }
}

// Orchestrators read NOT_FOUND as success.
TEST_F(VolumeCatalogTest, AMissingImageIsNotReportedAsAMissingVolume) {
  const std::string id = Created("db");
  here().backend.before = [](const std::string& what) { return NotFound(what + " '/state/x': No such file"); };
  const ControllerExpandSpec more = {.volume_id = id, .range = {.required = 32 * kMiB, .limit = 0}};
  ExpectStatus(catalog().Create(Spec("new"), Patient()).status(), absl::StatusCode::kInternal, "create '/state/x'");
  ExpectStatus(catalog().Expand(more, Patient()).status(), absl::StatusCode::kInternal, "grow '/state/x'");
  ExpectStatus(catalog().Delete(id, Patient()), absl::StatusCode::kInternal, "delete '/state/x'");
  here().backend.before = nullptr;
  std::filesystem::remove(Image(id));
  const absl::Status lost = catalog().Expand(more, Patient()).status();
  ExpectStatus(lost, absl::StatusCode::kInternal, "put it back, or delete the volume");
  EXPECT_THAT(Message(lost), HasSubstr(Image(id)));
  EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
}

TEST_F(VolumeCatalogTest, AMissingStateDirectoryIsNotReportedAsAMissingVolume) {
  const std::string id = Created("db");
  const std::string away = directory_ + ".away";
  std::filesystem::rename(directory_, away);
  ExpectStatus(catalog().Create(Spec("new"), Patient()).status(), absl::StatusCode::kInternal, directory_);
  ExpectStatus(catalog().Delete(id, Patient()), absl::StatusCode::kInternal, directory_);
  ExpectStatus(catalog().Capacity({}).status(), absl::StatusCode::kInternal, directory_);
  std::filesystem::rename(away, directory_);
  EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
}

// ListVolumes, ControllerGetVolume, GetCapacity

TEST_F(VolumeCatalogTest, AThousandVolumesArePagedEachOnceAndInOrder) {
  constexpr int kVolumes = 1000;
  const std::string victim = Created("first");
  for (int i = 1; i < kVolumes; ++i) {
    ASSERT_TRUE(*here().store->Insert({.id = NewVolumeId(),
                                       .name = std::to_string(i),
                                       .state = VolumeState::kReady,
                                       .bytes = 4096,
                                       .fs_type = "ext4"}));
  }
  const std::vector<std::string> all = Listed();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kVolumes));
  for (const std::size_t size : {1u, 7u, 499u, 500u, 501u, 999u, 1000u, 5000u}) {
    std::vector<std::string> paged;
    ListVolumesSpec spec = {.after = 0, .max_entries = size};
    while (true) {
      const absl::StatusOr<VolumePage> page = catalog().List(spec);
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_LE(page->volumes.size(), size);
      for (const VolumeInfo& volume : page->volumes) paged.push_back(volume.id);
      if (!page->next) break;
      spec.after = *page->next;
    }
    EXPECT_EQ(paged, all) << size;
  }
}

TEST_F(VolumeCatalogTest, ATokenOutlivesItsVolume) {
  std::vector<std::string> ids;
  for (const char* name : {"a", "b", "c", "d"}) ids.push_back(Created(name));
  const VolumePage page = *catalog().List({.after = 0, .max_entries = 2});
  ASSERT_TRUE(page.next.has_value());
  ASSERT_TRUE(catalog().Delete(ids[1], Patient()).ok());
  Created("e");
  const VolumePage rest = *catalog().List({.after = *page.next, .max_entries = 0});
  ASSERT_EQ(rest.volumes.size(), 3u);
  EXPECT_EQ(rest.volumes[0].id, ids[2]);
  EXPECT_FALSE(rest.next.has_value());
}

TEST_F(VolumeCatalogTest, ListAndGetNameTheNodes) {
  const std::string id = Created("db");
  ASSERT_TRUE(catalog().Publish(PublishTo(id), Patient()).ok());
  EXPECT_THAT(catalog().List({})->volumes[0].published_nodes, ElementsAre("n1"));
  EXPECT_THAT(catalog().Get(id)->published_nodes, ElementsAre("n1"));
  EXPECT_TRUE(absl::IsNotFound(catalog().Get(NewVolumeId()).status()));
  EXPECT_TRUE(absl::IsNotFound(catalog().Get("").status()));
}

TEST_F(VolumeCatalogTest, CapacityIsForThisTopologyAndKindOfVolume) {
  const CapacityInfo here_now =
      *catalog().Capacity({.possible = true, .minimum_bytes = 5, .topology = {{kZoneKey, "a"}}});
  EXPECT_GT(here_now.available, 0u);
  EXPECT_GT(here_now.largest, 0u);
  EXPECT_EQ(here_now.smallest, 5u);
  EXPECT_EQ(catalog().Capacity({.possible = true, .minimum_bytes = 5, .topology = {{kZoneKey, "b"}}})->available, 0u);
  EXPECT_EQ(catalog().Capacity({.possible = false, .minimum_bytes = 5, .topology = {}})->available, 0u);
}

TEST_F(VolumeCatalogTest, AVolumeWithoutItsImageIsAClearErrorAndCanBeDeleted) {
  const std::string id = Created("db");
  std::filesystem::remove(Image(id));
  ExpectStatus(catalog().Find(id).status(), absl::StatusCode::kInternal, Image(id));
  EXPECT_TRUE(catalog().Reconcile().ok());
  EXPECT_TRUE(catalog().Get(id).ok());
  EXPECT_TRUE(catalog().Delete(id, Patient()).ok());
}

}  // namespace
}  // namespace mooring::catalog_test
