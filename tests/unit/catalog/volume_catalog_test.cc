#include "plugin/catalog/volume_catalog.h"

#include "plugin/catalog/volume_lookup.h"
#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::testing {
namespace {

// CreateVolume

TEST_F(VolumeCatalogTest, AVolumeIsCreatedOnceForItsName) {
  const absl::StatusOr<VolumeInfo> first = catalog().Create(Spec("db"), Patient());
  ASSERT_OK(first);
  EXPECT_TRUE(IsVolumeId(first->id));
  EXPECT_EQ(first->bytes, 16 * kMiB);
  EXPECT_EQ(first->fs_type, "ext4");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(catalog().Create(Spec("db"), Patient())->id, first->id);
  EXPECT_THAT(Files(), ElementsAre(first->id + ".img"));
  const absl::StatusOr<NodeVolume> found = catalog().Find(first->id);
  ASSERT_OK(found);
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

TEST_F(VolumeCatalogTest, OnlyVolumesOfAnNfsPoolHaveNamesAndKeepTheirData) {
  const std::string source = Created("source");
  for (CreateVolumeSpec spec : {Spec("db"), CopySpec("db", {.kind = ContentSource::Kind::kVolume, .id = source})}) {
    spec.sub_dir = "data";
    EXPECT_THAT(catalog().Create(spec, Patient()).status(),
                FailsWith(StatusCode::kInvalidArgument, "subDir: pool default has the backend image"));
    spec.sub_dir = "";
    spec.making.on_delete = OnDelete::kArchive;
    EXPECT_THAT(catalog().Create(spec, Patient()).status(),
                FailsWith(StatusCode::kInvalidArgument,
                          "onDelete: pool default has the backend image, which gives volumes no names, and keeps "
                          "nothing of a deleted one"));
  }
  EXPECT_THAT(Files(), ElementsAre(source + ".img"));
}

TEST_F(VolumeCatalogTest, PropagationIsKeptAndComparedForTheSameName) {
  CreateVolumeSpec spec = Spec("db");
  spec.propagation = Propagation::kSlave;
  const auto made = catalog().Create(spec, Patient());
  ASSERT_OK(made);
  EXPECT_EQ(made->propagation, Propagation::kSlave);
  EXPECT_EQ(catalog().Create(spec, Patient())->id, made->id);
  EXPECT_EQ(catalog().Get(made->id)->propagation, Propagation::kSlave);
  EXPECT_EQ(catalog().Find(made->id)->propagation, Propagation::kSlave);
  EXPECT_THAT(catalog().Create(Spec("db"), Patient()),
              FailsWith(StatusCode::kAlreadyExists, "propagation rslave, and none is asked for"));
}

TEST_F(VolumeCatalogTest, MappedIdsAreKeptAndComparedForTheSameName) {
  CreateVolumeSpec spec = Spec("db");
  spec.idmap = "b:0:100000:65536";
  const auto made = catalog().Create(spec, Patient());
  ASSERT_OK(made);
  EXPECT_EQ(catalog().Create(spec, Patient())->id, made->id);
  EXPECT_EQ(catalog().Find(made->id)->tuning.idmap, spec.idmap);
  EXPECT_THAT(catalog().Create(Spec("db"), Patient()),
              FailsWith(StatusCode::kAlreadyExists, "idmap 'b:0:100000:65536', and '' is asked for"));
}

TEST_F(VolumeCatalogTest, AVolumeIsCreatedOnlyForAReachableTopology) {
  CreateVolumeSpec spec = Spec("db");
  spec.topologies = {{{kZoneKey, "b"}}, {{"other/zone", "a"}}, {{kZoneKey, "a"}, {"other/rack", "1"}}};
  const absl::Status status = catalog().Create(spec, Patient()).status();
  EXPECT_THAT(status, FailsWith(StatusCode::kResourceExhausted, "topology.mooring.csi/zone=a"));
  EXPECT_THAT(Message(status), HasSubstr("topology.mooring.csi/node=n1"));
  EXPECT_THAT(Files(), IsEmpty());
  spec.topologies.push_back({{kZoneKey, "a"}});
  EXPECT_OK(catalog().Create(spec, Patient()));
  CreateVolumeSpec anywhere = Spec("anywhere");
  anywhere.topologies = {{}};
  EXPECT_OK(catalog().Create(anywhere, Patient()));
}

TEST_F(VolumeCatalogTest, TheNextCallCleansUpIfTheFailedOneCannot) {
  here().backend.before = [](const std::string&) { return ResourceExhausted("No space left on device"); };
  EXPECT_THAT(catalog().Create(Spec("db"), Patient()), FailsWith(StatusCode::kResourceExhausted, "No space"));
  here().backend.before = nullptr;
  EXPECT_OK(catalog().Create(Spec("db", {.required = 17 * kMiB, .limit = 0}), Patient()));
  ExpectConsistent();
}

TEST_F(VolumeCatalogTest, CallsForOneNameWaitForEachOtherAndNoLongerThanTheirDeadline) {
  Gate gate;
  here().backend.before = [&](const std::string&) {
    gate.Pass();
    return absl::OkStatus();
  };
  absl::StatusOr<VolumeInfo> slow;
  std::thread thread([&] { slow = catalog().Create(Spec("db"), Patient()); });
  EXPECT_TRUE(gate.WaitUntilReached());
  EXPECT_THAT(catalog().Create(Spec("db"), Soon()), FailsWith(StatusCode::kAborted, "for 'db' is"));
  // No list shows it before it is ready.
  EXPECT_THAT(Listed(), IsEmpty());
  gate.Open();
  thread.join();
  ASSERT_OK(slow);
  EXPECT_EQ(catalog().Create(Spec("db"), Patient())->id, slow->id);
}

// DeleteVolume

TEST_F(VolumeCatalogTest, AVolumeInUseIsNotDeletedAndStaysUsable) {
  const std::string id = Created("db");
  ASSERT_OK(catalog().Publish(PublishTo(id), Patient()));
  loops_.Attach(Image(id));
  EXPECT_THAT(catalog().Delete(id, Patient()), FailsWith(StatusCode::kFailedPrecondition, "/dev/loop7"));
  const absl::Status published = catalog().Delete(id, Patient());
  EXPECT_THAT(published, FailsWith(StatusCode::kFailedPrecondition, "published to node 'n1'"));
  // Some orchestrators never unpublish a volume whose plugin was down, so the error has the command for it.
  EXPECT_EQ(catalog().CommandsToUnpublish(id), "mooring csi controller-unpublish " + id + " --node n1");
  ASSERT_OK(catalog().Find(id));
  EXPECT_THAT(catalog().Get(id)->published_nodes, ElementsAre("n1"));
  loops_.Detach(Image(id));
  ASSERT_OK(catalog().Unpublish({.volume_id = id, .node_id = "n1"}, Patient()));
  EXPECT_OK(catalog().Delete(id, Patient()));
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
    ASSERT_OK(catalog().Unpublish({.volume_id = id, .node_id = ""}, Patient()));
    ASSERT_OK(catalog().Delete(id, Patient()));
  }
}

TEST_F(VolumeCatalogTest, DeletingWaitsForOtherCallsOnTheVolume) {
  const std::string id = Created("db");
  const auto stage = here().locks->Acquire(id, "volume", Patient().wait_until);
  EXPECT_THAT(catalog().Delete(id, Soon()), FailsWith(StatusCode::kAborted, id));
  EXPECT_OK(catalog().Find(id));
}

TEST_F(VolumeCatalogTest, AFailedDeletionCanBeRepeated) {
  const std::string id = Created("db");
  here().backend.before = [](const std::string&) { return Internal("I/O error"); };
  EXPECT_THAT(catalog().Delete(id, Patient()), FailsWith(StatusCode::kInternal, "I/O error"));
  EXPECT_OK(catalog().Find(id));
  here().backend.before = nullptr;
  here().backend.after = [](const std::string&) { return Internal("sync: I/O error"); };  // the image is gone
  EXPECT_THAT(catalog().Delete(id, Patient()), FailsWith(StatusCode::kInternal, "sync"));
  EXPECT_TRUE(absl::IsNotFound(catalog().Find(id).status()));
  EXPECT_THAT(Listed(), IsEmpty());
  here().backend.after = nullptr;
  EXPECT_OK(catalog().Delete(id, Patient()));
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
  loops_.Attach(Image(id));
  const absl::StatusOr<VolumeInfo> back = catalog().Create(Spec("db"), Patient());
  ASSERT_OK(back);
  EXPECT_EQ(back->id, id);  // it came back, whole
}

// ControllerExpandVolume

// Orchestrators read NOT_FOUND as success.
TEST_F(VolumeCatalogTest, AMissingImageIsNotReportedAsAMissingVolume) {
  const std::string id = Created("db");
  here().backend.before = [](const std::string& what) { return NotFound(what + " '/state/x': No such file"); };
  const ControllerExpandSpec more = {.volume_id = id, .range = {.required = 32 * kMiB, .limit = 0}};
  EXPECT_THAT(catalog().Create(Spec("new"), Patient()), FailsWith(StatusCode::kInternal, "create '/state/x'"));
  EXPECT_THAT(catalog().Expand(more, Patient()), FailsWith(StatusCode::kInternal, "grow '/state/x'"));
  EXPECT_THAT(catalog().Delete(id, Patient()), FailsWith(StatusCode::kInternal, "delete '/state/x'"));
  here().backend.before = nullptr;
  std::filesystem::remove(Image(id));
  const absl::Status lost = catalog().Expand(more, Patient()).status();
  EXPECT_THAT(lost, FailsWith(StatusCode::kInternal, "put it back, or delete the volume"));
  EXPECT_THAT(Message(lost), HasSubstr(Image(id)));
  EXPECT_OK(catalog().Delete(id, Patient()));
}

// Without a free descriptor, an image that is there cannot be seen.
TEST_F(VolumeCatalogTest, NobodyIsToldToDeleteAVolumeThatOnlyTheHostHides) {
  const std::string volume = "volume 'a'";
  EXPECT_THAT(LostImage(volume, NotFound("no file")), FailsWith(StatusCode::kInternal, "or delete the volume"));
  EXPECT_THAT(LostImage("snapshot 's'", NotFound("no file")), FailsWith(StatusCode::kInternal, "delete the snapshot"));
  EXPECT_EQ(LostImage(volume, Unavailable("its device is gone")), Unavailable("volume 'a': its device is gone"));
  for (const int error : {EMFILE, ENOMEM, EACCES}) {
    const absl::Status told = LostImage(volume, ErrnoStatus(error, "find the image", "/a"));
    EXPECT_NE(told.code(), StatusCode::kInternal) << told;
    EXPECT_THAT(Message(told), AllOf(HasSubstr("volume 'a': find the image '/a': "), Not(HasSubstr("delete"))));
  }
}

TEST_F(VolumeCatalogTest, AMissingStateDirectoryIsNotReportedAsAMissingVolume) {
  const std::string id = Created("db");
  const std::string away = directory_ + ".away";
  std::filesystem::rename(directory_, away);
  EXPECT_THAT(catalog().Create(Spec("new"), Patient()), FailsWith(StatusCode::kInternal, directory_));
  EXPECT_THAT(catalog().Delete(id, Patient()), FailsWith(StatusCode::kInternal, directory_));
  EXPECT_THAT(catalog().Capacity({}), FailsWith(StatusCode::kInternal, directory_));
  std::filesystem::rename(away, directory_);
  EXPECT_OK(catalog().Delete(id, Patient()));
}

// ListVolumes, ControllerGetVolume, GetCapacity

TEST_F(VolumeCatalogTest, ATokenOutlivesItsVolume) {
  std::vector<std::string> ids;
  for (const char* name : {"a", "b", "c", "d"}) ids.push_back(Created(name));
  const VolumePage page = *catalog().List({.after = 0, .max_entries = 2});
  ASSERT_TRUE(page.next.has_value());
  ASSERT_OK(catalog().Delete(ids[1], Patient()));
  Created("e");
  const VolumePage rest = *catalog().List({.after = *page.next, .max_entries = 0});
  ASSERT_EQ(rest.volumes.size(), 3u);
  EXPECT_EQ(rest.volumes[0].id, ids[2]);
  EXPECT_FALSE(rest.next.has_value());
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
  EXPECT_THAT(catalog().Find(id), FailsWith(StatusCode::kInternal, Image(id)));
  EXPECT_OK(catalog().Reconcile());
  EXPECT_OK(catalog().Get(id));
  EXPECT_OK(catalog().Delete(id, Patient()));
}

}  // namespace
}  // namespace mooring::testing
