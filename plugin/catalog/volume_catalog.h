// The volumes: the work of the Controller service, without gRPC. Each part of the work has an object of its own.
//
// Every change is recorded before it is made and afterwards. So the next call or the next start finishes the change of
// a killed process:
//
//               Insert              image made
//     (no row) ───────▶ creating ──────────────▶ ready ◀──────┐
//                           │                      │          │ still in use, or cut short
//                           │ failed or given up   │ Delete   │
//                           └──────────▶ deleting ◀┴──────────┘
//                                           │ image gone
//                                           ▼
//                                        (no row)
//
// No call returns the id of a volume before the volume is ready. Calls for one volume wait for each other until
// Call::wait_until, and are ABORTED then: catalog_locks.h. The store and the images are also safe without locks, by
// compare-and-set and by a lock on the image (image_backend.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/catalog/volume_maker.h"
#include "plugin/catalog/volume_publications.h"

namespace mooring {

// The record of a volume, and what else an answer says about it.
struct VolumeInfo : VolumeRecord {
  std::vector<std::string> published_nodes = {};
  BackendKind kind = BackendKind::kImage;
  std::string problem = {};  // a sentence about its image or pool; empty: healthy. Set by Get and List
};

struct VolumePage {
  std::vector<VolumeInfo> volumes;
  std::optional<std::int64_t> next;  // `after` of the next page; none: this is the last page
};

class VolumeCatalog : public VolumeSource {
 public:
  struct Settings {
    std::string node_id;           // the only node that volumes outside of shared pools can be published to
    Segments topology;             // of that node
    std::int64_t max_volumes = 0;  // that may be published to it at a time; 0: no limit
    bool serves_node = true;       // this plugin stages volumes there, and sees all mounts of volumes
  };

  // All of them outlive the catalog. `volume_locks` is shared with the node side; a volume's key is its id.
  VolumeCatalog(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools, KeyedLocks& volume_locks,
                Contents& contents, Settings settings);

  // VolumeSource. INTERNAL: the catalog has the volume, and its image is missing.
  absl::StatusOr<NodeVolume> Find(const std::string& id) override { return lookup_.Find(id); }
  absl::Status Knows(const std::string& id) override { return lookup_.Knows(id); }
  absl::Status NoteRawUse(const std::string& id, bool read_only) override { return lookup_.NoteRawUse(id, read_only); }
  absl::StatusOr<std::string> PassphraseOf(const std::string& id, const std::string& given) override {
    return lookup_.PassphraseOf(id, given);
  }
  absl::Status CheckAnswers(const std::string& id) override { return lookup_.CheckAnswers(id); }
  absl::Status BeginUse(const std::string& id, const Capability& capability, bool read_only) override {
    return publications_.BeginUse(id, capability, read_only);
  }
  absl::Status EndUse(const std::string& id) override { return publications_.EndUse(id); }
  void EndUseLater(const std::string& id) override { publications_.EndUseLater(id); }
  std::vector<KnownDevice> KnownDevices() override;
  void WaitFor(const std::string& id, std::chrono::steady_clock::time_point until) override;

  // Finds or creates the volume with that name. ALREADY_EXISTS: it exists with another size, filesystem, pool or
  // source. NOT_FOUND: the source does not exist. RESOURCE_EXHAUSTED: there is no room, or no topology that fits.
  // OUT_OF_RANGE: the size is not possible.
  absl::StatusOr<VolumeInfo> Create(const CreateVolumeSpec& spec, const Call& call);

  // NOT_FOUND: it does not exist or is not ready.
  absl::StatusOr<CopySource> FindSource(const ContentSource& wanted) { return lookup_.FindSource(wanted); }

  // `IsStaged` is asked about a use that the kernel does not show: a staged raw device.
  using IsStaged = std::function<absl::StatusOr<bool>(const std::string& id)>;

  // OK if it does not exist. Its snapshots and copies stay. FAILED_PRECONDITION: it is in use, or published to a node.
  absl::Status Delete(const std::string& id, const Call& call, const IsStaged& is_staged = {});

  // The commands that unpublish it from its nodes. They are for errors that say that it is in use, because the
  // orchestrator may have forgotten it. Empty: it is published to no node.
  std::string CommandsToUnpublish(const std::string& id) { return publications_.CommandsToUnpublish(id); }

  // NOT_FOUND: it does not exist or is not ready.
  absl::StatusOr<VolumeInfo> Get(const std::string& id);

  absl::StatusOr<VolumePage> List(const PageSpec& spec);
  absl::StatusOr<CapacityInfo> Capacity(const CapacitySpec& spec);

  // Returns the new size. OUT_OF_RANGE: the size is not possible. FAILED_PRECONDITION: the volume grows only unused.
  absl::StatusOr<std::uint64_t> Expand(const ControllerExpandSpec& spec, const Call& call,
                                       const IsStaged& is_staged = {});

  // Records the change, and calls `apply` under the volume's lock to change its devices and mounts. If `apply` fails,
  // the record and the devices get their old values again. INVALID_ARGUMENT: volumes of the pool do not have the
  // setting.
  using Apply = std::function<absl::Status(const NodeVolume& volume)>;
  absl::Status Modify(const ModifySpec& spec, const Apply& apply, const Call& call);

  // A repeated call is OK. ALREADY_EXISTS: it is published with another access type or `read_only`. NOT_FOUND: the
  // volume or the node does not exist. FAILED_PRECONDITION: it is published to another node, or attached there.
  // RESOURCE_EXHAUSTED: max_volumes.
  absl::Status Publish(const ControllerPublishSpec& spec, const Call& call,
                       const VolumePublications::IsUsedHere& is_used_here = {}) {
    return publications_.Publish(spec, is_used_here, call);
  }

  // OK if it is not published there. FAILED_PRECONDITION: it lies in a shared pool, and the node still has it attached.
  absl::Status Unpublish(const ControllerUnpublishSpec& spec, const Call& call) {
    return publications_.Unpublish(spec, call);
  }

  // As VolumeReconciler.
  absl::Status Reconcile() { return reconciler_.Reconcile(); }
  absl::Status ReconcilePool(const std::string& pool) { return reconciler_.ReconcilePool(pool); }
  absl::Status EndStaleUses(const std::string& pool) { return publications_.EndStaleUses(pool); }

  const Segments& topology() const { return maker_.node().topology; }
  const Pools& pools() const { return pools_; }
  PoolRoom& room() { return room_; }

 private:
  CatalogStore& store_;
  const Pools& pools_;
  VolumeLookup lookup_;
  PoolRoom room_;
  VolumePublications publications_;
  VolumeRemover remover_;
  VolumeReconciler reconciler_;
  VolumeMaker maker_;
};

}  // namespace mooring
