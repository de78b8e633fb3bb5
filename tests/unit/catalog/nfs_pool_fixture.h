// A pool that two hosts mount from a server, as backend=nfs does: the catalogs of both, and real directories.
#pragma once

#include "plugin/backends/registry.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/volume_id.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {

inline constexpr char kTag[] = "0a1b2c3d";

class RealTrees final : public FakeMounter {
 public:
  absl::Status CopyTree(const std::string& source, const std::string& destination) override {
    MOORING_RETURN_IF_ERROR(FakeMounter::CopyTree(source, destination));
    std::filesystem::copy(source, destination, std::filesystem::copy_options::recursive);
    return absl::OkStatus();
  }
  absl::Status RemoveTree(const std::string& directory) override {
    MOORING_RETURN_IF_ERROR(FakeMounter::RemoveTree(directory));
    std::filesystem::remove_all(directory);
    return absl::OkStatus();
  }
};

struct Host {
  Host(const std::string& own, const std::string& shared, const std::string& node)
      : store(*CatalogStore::Open(own + "/" + node)),
        snapshots(store->files()),
        locks(*KeyedLocks::Shared(own + "/lock-" + node)),
        pools(MakePools(shared)),
        catalog(*store, snapshots, pools, *locks, mounter, {.node_id = node, .topology = {}, .max_volumes = 0}) {
    const auto answers = [this] { return availability->Check(); };
    store->files()->AddLater("share", kTag, answers);
    EXPECT_OK(locks->AddFile(shared + "/lock",
                             [](const std::string& key) { return key.find(kTag) != std::string::npos; },
                             {.answers = answers}));
  }
  Pools MakePools(const std::string& shared) {
    const PoolConfig pool = {.name = "share", .kind = BackendKind::kNfs};
    const std::string place = shared + "/share";  // with the same directory at its PlaceForCalls
    std::filesystem::create_directory(PlaceForCalls(place));
    if (!std::filesystem::exists(place)) std::filesystem::create_symlink(".share", place);
    std::vector<Pool> made;
    made.push_back(
        {.name = "share",
         .kind = BackendKind::kNfs,
         .backend = TypeOf(BackendKind::kNfs).make(pool, place, {.mounter = mounter, .availability = availability}),
         .tag = kTag,
         .availability = availability});
    return Pools(std::move(made));
  }
  void Open(const std::string& shared, const std::string& node) {
    const auto records = store->files()->OpenLater(shared + "/catalog.db", "share", [] { return absl::OkStatus(); });
    ASSERT_OK(records);
    ASSERT_OK(SharedNodes::Put(**records, {.id = node}));
    availability->Answered();
  }

  RealTrees mounter;
  std::shared_ptr<Availability> availability = std::make_shared<Availability>("share");
  std::unique_ptr<CatalogStore> store;
  SnapshotStore snapshots;
  std::unique_ptr<KeyedLocks> locks;
  Pools pools;
  VolumeCatalog catalog;
};

class NfsPool : public ::testing::Test {
 protected:
  void OpenBoth() {
    here_.Open(shared_.path(), "n1");
    there_.Open(shared_.path(), "n2");
  }
  static absl::StatusOr<VolumeInfo> Create(Host& host, const std::string& name, const VolumeMaking& making,
                                           const std::string& sub_dir = "") {
    CreateVolumeSpec spec;
    spec.name = name;
    spec.fs_type = "nfs";
    spec.pool = "share";
    spec.making = making;
    spec.sub_dir = sub_dir;
    return host.catalog.Create(spec, Patient());
  }
  static std::string Created(Host& host, const std::string& name, const VolumeMaking& making = {},
                             const std::string& sub_dir = "") {
    const auto made = Create(host, name, making, sub_dir);
    EXPECT_OK(made);
    return made.ok() ? made->id : "";
  }
  static absl::StatusOr<VolumeInfo> Clone(Host& host, const std::string& name, const std::string& source,
                                          const std::string& sub_dir = "") {
    CreateVolumeSpec spec;
    spec.name = name;
    spec.pool = "share";
    spec.is_mounted = true;
    spec.sub_dir = sub_dir;
    spec.source = {.kind = ContentSource::Kind::kVolume, .id = source};
    return host.catalog.Create(spec, Patient());
  }
  std::string Making(const std::string& id) const { return shared_ / "share/" + id + ".making"; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(shared_ / ".share")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  static absl::Status Publish(Host& host, const std::string& id, const std::string& node, AccessMode mode,
                              bool read_only = false) {
    ControllerPublishSpec spec = {.volume_id = id, .node_id = node, .capability = {}, .read_only = read_only};
    spec.capability.mode = mode;
    return host.catalog.Publish(spec, Patient());
  }
  static Capability Mode(AccessMode mode) {
    Capability capability;
    capability.mode = mode;
    return capability;
  }
  static Call Patient() { return Call::WithLongestWait(); }

  TempDir own_, shared_;
  Host here_{own_.path(), shared_.path(), "n1"}, there_{own_.path(), shared_.path(), "n2"};
};

}  // namespace mooring::testing
