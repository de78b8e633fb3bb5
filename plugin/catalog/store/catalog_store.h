// The records of volumes and publications on disk, in SQLite: the request and its progress. Several processes may use
// one file. The records of a shared pool are in a file of that pool (catalog_files.h), which several hosts use. The
// name of a volume is unique in its file.
//
// A write is on disk when its call returns (WAL, synchronous=FULL). Reads have their own connection, so they never wait
// for another call's fsync. Safe from several threads. Nothing throws: SQLite's errors are returned as INTERNAL with
// the path and SQLite's message. RESOURCE_EXHAUSTED: the disk is full. ABORTED: another process holds the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/model/volume_tuning.h"

namespace mooring {

class CatalogFiles;

// How a function over all files treats one whose server does not answer.
enum class IfAway { kFail, kSkip };

enum class VolumeState { kCreating, kReady, kDeleting };

// The word for a state in the tables.
std::string_view StateText(VolumeState state);
VolumeState ParseState(std::string_view text);

struct VolumeRecord {
  std::int64_t seq = 0;  // the order of creation; Insert assigns it, and never assigns it again
  std::string id;
  std::string name;  // from the orchestrator
  VolumeState state = VolumeState::kCreating;
  std::uint64_t bytes = 0;
  std::string fs_type;
  std::optional<Propagation> propagation = std::nullopt;
  std::string pool = std::string(kDefaultPool);
  std::string source = {};  // the id of the snapshot or volume that it was created from; empty: none
  VolumeTuning tuning = {};
  std::string ephemeral = {};     // the id that the orchestrator uses for an ephemeral volume; empty: not ephemeral
  bool block_only = false;        // CreateVolumeSpec::block_only
  std::uint64_t asked_bytes = 0;  // required_bytes of the call that set `bytes`; 0: equal to `bytes`
};

struct PublicationRecord {
  std::string volume_id;
  std::string node_id;
  std::string access_type;  // "mount" or "block"
  std::string capability;   // ToString(Capability). It may hold mount flags, so it is never logged
  bool read_only = false;
};

struct ListedVolume {
  VolumeRecord volume;
  std::vector<std::string> nodes;  // to which the volume is published
};

// The number of volumes or snapshots of a pool in a state, and the sum of their sizes.
struct PoolCount {
  std::string pool;
  VolumeState state = VolumeState::kReady;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  bool operator==(const PoolCount&) const = default;
};

// A volume or snapshot that is being created or deleted.
struct UnfinishedRecord {
  std::string id;
  std::string pool;

  bool operator==(const UnfinishedRecord&) const = default;
};

class CatalogStore {
 public:
  // OK: a new catalog may be created. It is asked if the file is missing or empty.
  using MayBegin = std::function<absl::Status()>;

  // Creates the file (0600) if it is missing. FAILED_PRECONDITION: it has another schema version. Otherwise the error
  // of `may_begin`.
  static absl::StatusOr<std::unique_ptr<CatalogStore>> Open(const std::string& path, const MayBegin& may_begin = {});

  // The id of the node that holds the volumes: `wanted`, unless the catalog has volumes of another node.
  absl::StatusOr<std::string> KeepNodeId(const std::string& wanted);

  // False: the name or the id is taken.
  absl::StatusOr<bool> Insert(const VolumeRecord& volume);

  // Compares and sets. False: the volume does not exist, or is not in the state `from`.
  absl::StatusOr<bool> Move(const std::string& id, VolumeState from, VolumeState to);
  absl::Status SetBytes(const std::string& id, std::uint64_t bytes, std::uint64_t asked = 0);  // 0: equal to `bytes`
  absl::Status SetTuning(const std::string& id, const VolumeTuning& tuning);
  absl::Status Delete(const std::string& id);  // with its publications; OK if it does not exist

  // Inserts or replaces the publication of a volume to a node. False, with nothing done: `most_volumes` other volumes
  // are published to the node (0: no limit). ABORTED: the volume does not exist.
  absl::StatusOr<bool> PutPublication(const PublicationRecord& publication, std::int64_t most_volumes);
  absl::Status DeletePublications(const std::string& volume_id, const std::string& node_id);  // empty: from all nodes

  // The sum of the sizes of a pool's volumes, in any state. PoolRoom depends on it.
  absl::StatusOr<std::uint64_t> BytesIn(const std::string& pool);

  // These two read whole tables, and have a connection of their own for that.
  absl::StatusOr<std::vector<PoolCount>> CountByPool();  // without pools and states that have no volume
  absl::StatusOr<std::vector<UnfinishedRecord>> NameUnfinished();

  absl::StatusOr<std::optional<VolumeRecord>> FindById(const std::string& id);
  // In the shared pool with that tag; empty: outside of shared pools.
  absl::StatusOr<std::optional<VolumeRecord>> FindByName(const std::string& name, std::string_view tag = {});
  // The first record of the pool, in any state, with VolumeTuning::sub_dir `name`, for which IsSubDir holds.
  absl::StatusOr<std::optional<VolumeRecord>> FindBySubDir(const std::string& pool, const std::string& name);
  absl::StatusOr<std::vector<PublicationRecord>> Publications(const std::string& volume_id);

  // The first `most` ready volumes whose seq is larger than `after`, by seq. Without ephemeral volumes, which are no
  // volumes of the controller.
  absl::StatusOr<std::vector<ListedVolume>> ListReady(std::int64_t after, std::size_t most,
                                                      IfAway if_away = IfAway::kFail);
  // Creating or deleting ones, in all files that answer, or in the file of a pool.
  absl::StatusOr<std::vector<VolumeRecord>> ListUnfinished();
  absl::StatusOr<std::vector<VolumeRecord>> ListUnfinishedIn(const std::string& pool);
  absl::StatusOr<std::vector<VolumeRecord>> ListEphemeral();  // in any state; shared pools have none

  // For SnapshotStore and SharedNodes.
  const std::shared_ptr<CatalogFiles>& files() const { return files_; }

 private:
  explicit CatalogStore(std::shared_ptr<CatalogFiles> files);

  const std::shared_ptr<CatalogFiles> files_;
};

}  // namespace mooring
