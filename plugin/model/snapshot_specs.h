// The arguments and results of calls about snapshots, as plain values: snapshot_requests.h parses requests into them,
// and SnapshotCatalog executes them.
#ifndef MOORING_PLUGIN_MODEL_SNAPSHOT_SPECS_H_
#define MOORING_PLUGIN_MODEL_SNAPSHOT_SPECS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mooring {

struct CreateSnapshotSpec {
  std::string name;
  std::string source_volume_id;
};

struct ListSnapshotsSpec {
  std::int64_t after = 0;             // the seq of the last snapshot of the previous page
  std::size_t max_entries = 0;        // 0: all
  std::string snapshot_id = {};       // empty: any
  std::string source_volume_id = {};  // empty: any
};

struct CreateGroupSpec {
  std::string name;
  std::vector<std::string> source_volume_ids;  // each once
};

struct GroupSpec {
  std::string id;
  std::vector<std::string> snapshot_ids;  // its members; empty: the call names none
};

struct SnapshotInfo {
  std::string id;
  std::string source_volume_id;
  std::string group_id;  // empty: none
  std::uint64_t bytes = 0;
  std::int64_t created_at = 0;      // nanoseconds since 1970
  std::uint64_t restore_bytes = 0;  // SnapshotRecord::restore_bytes
};

struct SnapshotPage {
  std::vector<SnapshotInfo> snapshots;
  std::optional<std::int64_t> next;  // `after` of the next page; none: this is the last page
};

struct GroupInfo {
  std::string id;
  std::int64_t created_at = 0;
  std::vector<SnapshotInfo> snapshots;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_SNAPSHOT_SPECS_H_
