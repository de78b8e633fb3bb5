// The fixture of the tests of VolumeCatalog: a real store, real images in a temporary directory, and fake loop devices.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <optional>
#include <set>

#include "base/file/directory.h"
#include "plugin/backends/image/image_backend.h"
#include "plugin/catalog/snapshot_catalog.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/volume_id.h"
#include "tests/fakes/fake_contents.h"
#include "tests/fakes/fake_loops.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {

inline constexpr char kZoneKey[] = "topology.mooring.csi/zone";

// The image backend with hooks: `before` and `after` may fail the call, wait, or end the process.
class HookedBackend : public ImageBackend {
 public:
  using Hook = std::function<absl::Status(const std::string& what)>;
  using ImageBackend::ImageBackend;

  absl::Status Create(const VolumeDraft& draft) override {
    return Run("create", [&] { return ImageBackend::Create(draft); });
  }
  // ImageBackend::Delete calls it, too. The row is `deleting` when `before` is called.
  absl::Status DeleteIfUnused(const std::string& id, const std::function<absl::Status()>& begin) override {
    const absl::Status deleted = ImageBackend::DeleteIfUnused(id, [&]() -> absl::Status {
      MOORING_RETURN_IF_ERROR(begin());
      return before ? before("delete") : absl::OkStatus();
    });
    return deleted.ok() && after ? after("delete") : deleted;
  }
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override {
    return Run("copy", [&] { return ImageBackend::Copy(drafts); });
  }
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override {
    return Run("grow", [&] { return ImageBackend::Grow(id, bytes); });
  }

  absl::StatusOr<BackendCapacity> Capacity() const override {
    MOORING_ASSIGN_OR_RETURN(BackendCapacity capacity, ImageBackend::Capacity());
    if (total != 0) capacity.total = total;
    return capacity;
  }

  absl::Status HoldToSize(const std::string& id, std::uint64_t bytes) override {
    held.emplace_back(id, bytes);
    return absl::OkStatus();
  }

  Hook before, after;
  std::vector<std::pair<std::string, std::uint64_t>> held;
  std::uint64_t total = 0;  // BackendCapacity::total; 0: that of the real filesystem

 private:
  absl::Status Run(const std::string& what, const std::function<absl::Status()>& action) {
    if (before) MOORING_RETURN_IF_ERROR(before(what));
    MOORING_RETURN_IF_ERROR(action());
    return after ? after(what) : absl::OkStatus();
  }
};

inline Pools ImagePool(const std::string& directory, FakeLoops& loops, Contents& contents,
                       std::optional<double> overcommit) {
  std::vector<Pool> pools;
  pools.push_back({std::string(kDefaultPool), BackendKind::kImage,
                   std::make_unique<HookedBackend>(directory + "/volumes", loops, contents), overcommit});
  return Pools(std::move(pools));
}

// The state of a plugin process. Several of them over one directory act as several processes.
struct Process {
  explicit Process(const std::string& directory, FakeLoops& loops, std::int64_t max_volumes = 0,
                   const std::string& node_id = "n1", std::optional<double> overcommit = std::nullopt)
      : pools(ImagePool(directory, loops, contents, overcommit)),
        backend(static_cast<HookedBackend&>(*pools.all().front().backend)),
        store(*CatalogStore::Open(directory + "/catalog.db")),
        snapshot_store(std::make_unique<SnapshotStore>(store->files())),
        locks(*KeyedLocks::Shared(directory + "/lock")),
        catalog(*store, *snapshot_store, pools, *locks, contents,
                {.node_id = node_id,
                 .topology = {{"topology.mooring.csi/node", node_id}, {kZoneKey, "a"}},
                 .max_volumes = max_volumes}),
        snapshots(*snapshot_store, catalog, pools, *locks, contents) {}

  FakeContents contents;
  Pools pools;
  HookedBackend& backend;
  std::unique_ptr<CatalogStore> store;
  std::unique_ptr<SnapshotStore> snapshot_store;
  std::unique_ptr<KeyedLocks> locks;
  VolumeCatalog catalog;
  SnapshotCatalog snapshots;
};

inline CreateVolumeSpec Spec(const std::string& name, const SizeRange& range = {.required = 16 * kMiB, .limit = 0}) {
  return {.name = name, .range = range, .minimum_bytes = 16 * kMiB, .fs_type = "ext4", .topologies = {}};
}

inline CreateVolumeSpec CopySpec(const std::string& name, const ContentSource& source, const SizeRange& range = {}) {
  CreateVolumeSpec spec = Spec(name, range);
  spec.fs_type.clear();
  spec.pool.clear();
  spec.source = source;
  return spec;
}
inline ContentSource OfVolume(const std::string& id) { return {ContentSource::Kind::kVolume, id}; }
inline ContentSource OfSnapshot(const std::string& id) { return {ContentSource::Kind::kSnapshot, id}; }

inline ControllerPublishSpec PublishTo(const std::string& id, const std::string& node = "n1", bool read_only = false) {
  return {.volume_id = id, .node_id = node, .capability = {}, .read_only = read_only};
}

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Call Soon() { return {std::chrono::steady_clock::now() + std::chrono::milliseconds(30)}; }
inline Call Patient() { return Call::WithLongestWait(); }

class VolumeCatalogTest : public ::testing::Test {
 protected:
  // It is opened late, so that a test can fork before.
  Process& here() {
    if (!process_) process_ = std::make_unique<Process>(directory_, loops_);
    return *process_;
  }
  VolumeCatalog& catalog() { return here().catalog; }
  SnapshotCatalog& snapshots() { return here().snapshots; }

  std::string Created(const std::string& name) {
    const absl::StatusOr<VolumeInfo> volume = catalog().Create(Spec(name), Patient());
    EXPECT_OK(volume);
    return volume.ok() ? volume->id : "";
  }

  std::string Snapped(const std::string& name, const std::string& volume) {
    const auto snapshot = here().snapshots.Create({.name = name, .source_volume_id = volume}, Patient());
    EXPECT_OK(snapshot);
    return snapshot.ok() ? snapshot->id : "";
  }

  std::vector<std::string> Files() const { return *EntriesOrNone(directory_ + "/volumes"); }
  std::string Image(const std::string& id) const { return directory_ + "/volumes/" + id + ".img"; }

  std::vector<std::string> Listed() {
    const absl::StatusOr<VolumePage> page = catalog().List({});
    EXPECT_OK(page);
    std::vector<std::string> ids;
    for (const VolumeInfo& volume : page->volumes) ids.push_back(volume.id);
    return ids;
  }

  // Each volume and snapshot has its image, each image has its record, and no row is unfinished.
  void ExpectConsistent() {
    EXPECT_THAT(*here().store->ListUnfinished(), ::testing::IsEmpty());
    EXPECT_THAT(*here().snapshot_store->ListUnfinished(), ::testing::IsEmpty());
    EXPECT_THAT(*here().snapshot_store->ListUnfinishedGroups(), ::testing::IsEmpty());
    std::set<std::string> files;
    for (const std::string& id : Listed()) files.insert(id + ".img");
    const std::vector<std::string> snapshots = *here().snapshot_store->AllIds();
    for (const std::string& id : snapshots) files.insert(id + ".img");
    const std::vector<std::string> there = Files();
    EXPECT_EQ(std::set<std::string>(there.begin(), there.end()), files);
  }

  const TempDir scratch_;
  const std::string directory_ = scratch_.path();
  FakeLoops loops_;
  std::unique_ptr<Process> process_;
};

// A real SIGKILL of a real process, at each place where the image is touched.
class KilledProcessTest : public VolumeCatalogTest {
 protected:
  // Runs `action` in a child that kills itself before or after the backend's `operation`.
  void Kill(const std::string& when, const std::string& operation, const std::function<void(Process&)>& action) {
    ASSERT_EQ(process_, nullptr) << "a database must not be open across a fork";
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Process doomed(directory_, loops_);
      const HookedBackend::Hook kill = [&](const std::string& what) {
        if (what == operation) ::kill(::getpid(), SIGKILL);
        return absl::OkStatus();
      };
      (when == "before" ? doomed.backend.before : doomed.backend.after) = kill;
      action(doomed);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended otherwise";
  }

  void RestartAndReconcile() {
    process_.reset();
    EXPECT_OK(here().snapshots.Reconcile());
    EXPECT_OK(catalog().Reconcile());
    ExpectConsistent();
  }

  std::string CreatedBefore(const std::string& name) {
    std::string id = Created(name);
    process_.reset();
    return id;
  }
};

}  // namespace mooring::testing
