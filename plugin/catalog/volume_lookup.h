// Finds volumes and content sources, and locks them for a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/keyed_lock.h"
#include "plugin/backends/pools.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/catalog/store/snapshot_store.h"
#include "plugin/model/call.h"
#include "plugin/model/volume_source.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

// FAILED_PRECONDITION: the plugin was not started with the pool of the volume or snapshot.
absl::StatusOr<const Pool*> PoolOf(const Pools& pools, const VolumeRecord& record);
absl::StatusOr<const Pool*> PoolOf(const Pools& pools, const SnapshotRecord& record);

// The size that the pool holds the volume or snapshot to. Where it does not, the recorded one.
std::uint64_t SizeOf(const Pool& pool, const VolumeLocation& found, std::uint64_t recorded);

// The size that a volume of `bytes`, as ChooseSize has chosen them, gets in the pool. OUT_OF_RANGE: none is in the
// range and at least `minimum`.
absl::StatusOr<std::uint64_t> SizeIn(const Pool& pool, std::uint64_t bytes, const SizeRange& range,
                                     std::uint64_t minimum);

// Backend::NoteRawUse, for a question: nothing is noted. FAILED_PRECONDITION: as a raw device, the volume could show
// what deleted volumes held.
inline absl::Status CheckMayBeRaw(const Pool& pool, const std::string& id) {
  return pool.backend->NoteRawUse(id, /*read_only=*/true);
}

// Backend::Locate of a volume or snapshot. A device that is not there is asked for first.
absl::StatusOr<VolumeLocation> LocateIn(const Pool& pool, const std::string& id);

// Whether an interrupted copy can have left such a source frozen.
inline bool MayBeFrozen(BackendKind kind) {
  return TraitsOf(kind).staging == Staging::kLoopDevice || TraitsOf(kind).encrypted;
}

// The error for a known volume or snapshot, "volume 'a'", whose backend does not find its image. INTERNAL: the image is
// missing. Other errors, as of a limit, a permission, a disk or a device that is away, keep their code. The image may
// well be there then, so nobody is told to delete the volume.
absl::Status LostImage(const std::string& what, const absl::Status& why);

// The error of a call that has begun a change and cannot finish it. FAILED_PRECONDITION and ALREADY_EXISTS would tell
// the caller that nothing has changed, so they become UNAVAILABLE.
absl::Status Unfinished(const absl::Status& why, const std::string& what);

// A volume or snapshot that a new volume can be a copy of.
struct CopySource {
  BackendKind kind = BackendKind::kImage;
  std::string path;  // StorageOf
  std::uint64_t bytes = 0;
  std::uint64_t asked_bytes = 0;  // VolumeRecord::asked_bytes
  std::string fs_type;
  std::string pool;
  std::string id;
  bool block_only = false;
  VolumeMaking making = {};  // of a volume; snapshots have none
};

class VolumeLookup {
 public:
  VolumeLookup(CatalogStore& store, SnapshotStore& snapshots, const Pools& pools, KeyedLocks& locks)
      : store_(store), snapshots_(snapshots), pools_(pools), locks_(locks) {}

  // NOT_FOUND: the volume does not exist, or is being created or deleted.
  absl::StatusOr<VolumeRecord> FindReady(const std::string& id);

  // NOT_FOUND as FindReady. INTERNAL: the image of the volume is missing.
  absl::StatusOr<NodeVolume> Find(const std::string& id);
  absl::Status Knows(const std::string& id);
  absl::Status NoteRawUse(const std::string& id, bool read_only);
  absl::StatusOr<std::string> PassphraseOf(const std::string& id, const std::string& given);  // as VolumeSource
  absl::Status CheckAnswers(const std::string& id) const;                                     // as VolumeSource

  absl::StatusOr<CopySource> FindSource(const ContentSource& wanted);  // NOT_FOUND: it does not exist or is not ready

  // NOT_FOUND: this plugin makes no such ids.
  absl::StatusOr<KeyedLocks::Hold> Lock(const std::string& id, const Call& call);

  // Locks a source while it is copied or thawed, so that no other copy has frozen it. No lock: there is no source, or
  // its id is not of this plugin.
  absl::StatusOr<std::vector<KeyedLocks::Hold>> LockSource(const std::string& id, const Call& call);

 private:
  CatalogStore& store_;
  SnapshotStore& snapshots_;
  const Pools& pools_;
  KeyedLocks& locks_;
};

}  // namespace mooring
