// The volumes and publications on disk, in SQLite: what was asked, and how far it got. Several processes may use one
// file.
//
// A write is on disk when its call returns (WAL, synchronous=FULL). Look-ups have a connection of their own, so they
// never wait for another call's fsync. Safe from several threads. Nothing throws: SQLite's errors come back as INTERNAL
// with the path and SQLite's own words, RESOURCE_EXHAUSTED where the disk is full, ABORTED where another process holds
// the file.
#ifndef MOORING_PLUGIN_CATALOG_CATALOG_STORE_H_
#define MOORING_PLUGIN_CATALOG_CATALOG_STORE_H_

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
#include "plugin/backends/pools.h"
#include "plugin/model/volume_tuning.h"

namespace mooring {

class CatalogDatabase;

enum class VolumeState { kCreating, kReady, kDeleting };

// A state's word in the tables, whose CHECK lets no fourth one in.
std::string_view StateText(VolumeState state);
VolumeState ParseState(std::string_view text);

struct VolumeRecord {
  std::int64_t seq = 0;  // the order of creation, given by Insert, never given twice
  std::string id;
  std::string name;  // the orchestrator's
  VolumeState state = VolumeState::kCreating;
  std::uint64_t bytes = 0;
  std::string fs_type;
  std::optional<Propagation> propagation = std::nullopt;
  std::string pool = std::string(kDefaultPool);
  std::string source = {};  // the id of the snapshot or volume that it was made from; empty: it was made empty
  VolumeTuning tuning = {};
  std::string ephemeral = {};     // the id that an orchestrator has given it; empty: it is no ephemeral one
  bool block_only = false;        // it is never mounted: CreateVolumeSpec::block_only
  std::uint64_t asked_bytes = 0;  // required_bytes of the call that gave it its size; 0: as `bytes`
};

struct PublicationRecord {
  std::string volume_id;
  std::string node_id;
  std::string access_type;  // "mount" or "block"
  std::string capability;   // ToString(Capability): equal exactly where they are. May hold mount flags: not for logs
  bool read_only = false;
};

struct ListedVolume {
  VolumeRecord volume;
  std::vector<std::string> nodes;  // it is published to
};

// How many there are of a pool in a state, and their sizes together.
struct PoolCount {
  std::string pool;
  VolumeState state = VolumeState::kReady;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  bool operator==(const PoolCount&) const = default;
};

// What is creating or deleting.
struct UnfinishedRecord {
  std::string id;
  std::string pool;

  bool operator==(const UnfinishedRecord&) const = default;
};

class CatalogStore {
 public:
  // Whether a new catalog may be begun, asked where the file is missing or empty.
  using MayBegin = std::function<absl::Status()>;

  // Makes the file (0600) where it is missing. FAILED_PRECONDITION: it was made by a newer version. Returns the
  // error of `may_begin` if that refuses.
  static absl::StatusOr<std::unique_ptr<CatalogStore>> Open(const std::string& path, const MayBegin& may_begin = {});
  ~CatalogStore();

  // The id of the node that the volumes lie on: `wanted`, unless there are volumes and they were made under another.
  absl::StatusOr<std::string> KeepNodeId(const std::string& wanted);

  // False where the name or the id is taken.
  absl::StatusOr<bool> Insert(const VolumeRecord& volume);

  // Compare and set: false where the volume is gone or not in the state `from`.
  absl::StatusOr<bool> Move(const std::string& id, VolumeState from, VolumeState to);
  absl::Status SetBytes(const std::string& id, std::uint64_t bytes, std::uint64_t asked = 0);  // 0: as `bytes`
  absl::Status SetTuning(const std::string& id, const VolumeTuning& tuning);
  absl::Status Remove(const std::string& id);  // with its publications; gone already is OK

  // Makes or replaces the publication of a volume to a node. False, and nothing done, where that many other volumes are
  // published to the node (0: no limit). ABORTED where the volume is not there.
  absl::StatusOr<bool> PutPublication(const PublicationRecord& publication, std::int64_t most_volumes);
  absl::Status RemovePublications(const std::string& volume_id, const std::string& node_id);  // no node: all

  // The sizes of all volumes of a pool together, half made and half deleted ones among them.
  absl::StatusOr<std::uint64_t> BytesIn(const std::string& pool);

  // All volumes, where there are some; by a connection of its own, for it reads them all.
  absl::StatusOr<std::vector<PoolCount>> CountByPool();
  absl::StatusOr<std::vector<UnfinishedRecord>> NameUnfinished();  // by the same connection

  absl::StatusOr<std::optional<VolumeRecord>> FindById(const std::string& id);
  absl::StatusOr<std::optional<VolumeRecord>> FindByName(const std::string& name);
  absl::StatusOr<std::vector<PublicationRecord>> Publications(const std::string& volume_id);

  // The first `most` ready volumes whose seq is larger than `after`, by seq. No ephemeral ones: their orchestrator
  // knows nothing of a catalog.
  absl::StatusOr<std::vector<ListedVolume>> ListReady(std::int64_t after, std::size_t most);
  absl::StatusOr<std::vector<VolumeRecord>> ListUnfinished();  // creating or deleting
  absl::StatusOr<std::vector<VolumeRecord>> ListEphemeral();   // in whatever state

  // The connections, for the store of the snapshots beside this one.
  const std::shared_ptr<CatalogDatabase>& database() const { return database_; }

 private:
  struct Writer;
  struct Reader;

  explicit CatalogStore(std::shared_ptr<CatalogDatabase> database);
  static absl::StatusOr<std::unique_ptr<CatalogStore>> TryOpen(const std::string& path, const MayBegin& may_begin);

  const std::shared_ptr<CatalogDatabase> database_;  // outlives the statements on it
  const std::string path_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_CATALOG_CATALOG_STORE_H_
