#include "plugin/catalog/store/catalog_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "base/status.h"
#include "plugin/catalog/store/catalog_database.h"
#include "plugin/model/propagation_column.h"
#include "sqlite/sqlite.h"

namespace mooring {
namespace {

constexpr char kVolumeColumns[] =
    "id, name, state, capacity_bytes, asked_bytes, fs_type, pool, source, propagation, tuning, ephemeral, block_only";
constexpr int kSelectedColumns = 13;

VolumeRecord VolumeIn(Use& row) {
  const auto bytes = static_cast<std::uint64_t>(row.Number(4));
  const auto asked_bytes = static_cast<std::uint64_t>(row.Number(5));
  return {.seq = row.Number(0),
          .id = row.Text(1),
          .name = row.Text(2),
          .state = ParseState(row.Text(3)),
          .bytes = bytes,
          .fs_type = row.Text(6),
          .propagation = PropagationFromColumn(row.Text(9)),
          .pool = row.Text(7),
          .source = row.Text(8),
          .tuning = TuningIn(row.Text(10)),
          .ephemeral = row.Text(11),
          .block_only = row.Number(12) != 0,
          .asked_bytes = asked_bytes == 0 ? bytes : asked_bytes};
}

std::vector<VolumeRecord> VolumesIn(Use&& row) {
  std::vector<VolumeRecord> volumes;
  while (row.Step()) volumes.push_back(VolumeIn(row));
  return volumes;
}

std::optional<VolumeRecord> FirstVolumeIn(Use&& row) {
  return row.Step() ? std::optional<VolumeRecord>(VolumeIn(row)) : std::nullopt;
}

}  // namespace

std::string_view StateText(VolumeState state) {
  switch (state) {
    case VolumeState::kCreating:
      return "creating";
    case VolumeState::kReady:
      return "ready";
    case VolumeState::kDeleting:
      return "deleting";
  }
  return "ready";
}

// An unknown word is read as "ready", because nothing is destroyed then.
VolumeState ParseState(std::string_view text) {
  if (text == "creating") return VolumeState::kCreating;
  if (text == "deleting") return VolumeState::kDeleting;
  return VolumeState::kReady;
}

struct CatalogStore::Writer {
  explicit Writer(CatalogDatabase::Connection& connection)
      : mutex(connection.mutex),
        recorded_node(connection.database, "SELECT id FROM node"),
        record_node(connection.database,
                    "INSERT INTO node VALUES (1, ?) ON CONFLICT (number) DO UPDATE SET id = excluded.id "
                    "WHERE NOT EXISTS (SELECT 1 FROM volumes)"),
        insert(
            connection.database,
            fmt::format("INSERT INTO volumes ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                        kVolumeColumns)),
        move(connection.database, "UPDATE volumes SET state = ?3 WHERE id = ?1 AND state = ?2"),
        set_bytes(connection.database, "UPDATE volumes SET capacity_bytes = ?2, asked_bytes = ?3 WHERE id = ?1"),
        set_tuning(connection.database, "UPDATE volumes SET tuning = ?2 WHERE id = ?1"),
        remove(connection.database, "DELETE FROM volumes WHERE id = ?"),
        // It is a single statement, so that two calls (or processes) cannot both take the last place on the node.
        publish(connection.database,
                "INSERT OR REPLACE INTO publications (volume_id, node_id, access_type, capability, read_only) "
                "SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?6 = 0 OR ?6 > "
                "(SELECT COUNT(*) FROM publications WHERE node_id = ?2 AND volume_id <> ?1)"),
        unpublish(connection.database, "DELETE FROM publications WHERE volume_id = ?1 AND (?2 = '' OR node_id = ?2)") {}

  std::mutex& mutex;
  SQLite::Statement recorded_node, record_node, insert, move, set_bytes, set_tuning, remove, publish, unpublish;
};

struct CatalogStore::Reader {
  explicit Reader(CatalogDatabase::Connection& connection)
      : mutex(connection.mutex),
        by_id(connection.database, fmt::format("SELECT seq, {} FROM volumes WHERE id = ?", kVolumeColumns)),
        by_name(connection.database, fmt::format("SELECT seq, {} FROM volumes WHERE name = ?", kVolumeColumns)),
        publications(connection.database,
                     "SELECT volume_id, node_id, access_type, capability, read_only FROM publications "
                     "WHERE volume_id = ? ORDER BY node_id"),
        list(connection.database,
             fmt::format("SELECT seq, {}, node_id FROM (SELECT * FROM volumes WHERE state = 'ready' AND seq > ? AND "
                         "ephemeral = '' ORDER BY seq LIMIT ?) LEFT JOIN publications ON volume_id = id "
                         "ORDER BY seq, node_id",
                         kVolumeColumns)),
        unfinished(connection.database,
                   fmt::format("SELECT seq, {} FROM volumes WHERE state <> 'ready' ORDER BY seq", kVolumeColumns)),
        ephemeral(connection.database,
                  fmt::format("SELECT seq, {} FROM volumes WHERE ephemeral <> '' ORDER BY seq", kVolumeColumns)),
        bytes_in(connection.database, "SELECT COALESCE(SUM(capacity_bytes), 0) FROM volumes WHERE pool = ?") {}

  std::mutex& mutex;
  SQLite::Statement by_id, by_name, publications, list, unfinished, ephemeral, bytes_in;
};

CatalogStore::CatalogStore(std::shared_ptr<CatalogDatabase> database)
    : database_(std::move(database)), file_(database_->file()) {}
CatalogStore::~CatalogStore() = default;

absl::StatusOr<std::unique_ptr<CatalogStore>> CatalogStore::Open(const std::string& path, const MayBegin& may_begin) {
  // It is asked before the file is created: a refused start leaves nothing behind.
  if (may_begin && ::access(path.c_str(), F_OK) != 0) MOORING_RETURN_IF_ERROR(may_begin());
  return RepeatWhileBusy([&] { return TryOpen(path, may_begin); });
}

absl::StatusOr<std::unique_ptr<CatalogStore>> CatalogStore::TryOpen(const std::string& path,
                                                                    const MayBegin& may_begin) {
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<CatalogDatabase> database, CatalogDatabase::Open(path, may_begin));
  std::unique_ptr<CatalogStore> store(new CatalogStore(std::move(database)));
  MOORING_RETURN_IF_ERROR(Guarded("open", store->file_, [&] {
    store->writer_ = std::make_unique<Writer>(store->database_->writer());
    store->reader_ = std::make_unique<Reader>(store->database_->reader());
  }));
  return store;
}

absl::StatusOr<std::string> CatalogStore::KeepNodeId(const std::string& wanted) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("look up the node of", file_, [&] {
    const auto recorded = [&] {
      Use row(writer_->recorded_node);
      return row.Step() ? row.Text(0) : "";
    };
    if (recorded() == wanted) return wanted;  // a full disk takes no write, not even of the same value
    Use(writer_->record_node, wanted).Exec();
    return recorded();
  });
}

absl::StatusOr<bool> CatalogStore::Insert(const VolumeRecord& volume) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("add a volume to", file_, [&] {
    return Use(writer_->insert, volume.id, volume.name, std::string(StateText(volume.state)),
               static_cast<std::int64_t>(volume.bytes), static_cast<std::int64_t>(volume.asked_bytes), volume.fs_type,
               volume.pool, volume.source, ToColumn(volume.propagation), ToText(volume.tuning), volume.ephemeral,
               volume.block_only ? 1 : 0)
               .Exec() == 1;
  });
}

absl::StatusOr<bool> CatalogStore::Move(const std::string& id, VolumeState from, VolumeState to) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("change a volume in", file_, [&] {
    return Use(writer_->move, id, std::string(StateText(from)), std::string(StateText(to))).Exec() == 1;
  });
}

absl::Status CatalogStore::SetBytes(const std::string& id, std::uint64_t bytes, std::uint64_t asked) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("change a volume in", file_, [&] {
    Use(writer_->set_bytes, id, static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(asked)).Exec();
  });
}

absl::Status CatalogStore::SetTuning(const std::string& id, const VolumeTuning& tuning) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("change a volume in", file_, [&] { Use(writer_->set_tuning, id, ToText(tuning)).Exec(); });
}

absl::Status CatalogStore::Delete(const std::string& id) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("remove a volume from", file_, [&] { Use(writer_->remove, id).Exec(); });
}

absl::StatusOr<bool> CatalogStore::PutPublication(const PublicationRecord& publication, std::int64_t most_volumes) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("publish a volume in", file_, [&] {
    return Use(writer_->publish, publication.volume_id, publication.node_id, publication.access_type,
               publication.capability, publication.read_only ? 1 : 0, most_volumes)
               .Exec() == 1;
  });
}

absl::Status CatalogStore::DeletePublications(const std::string& volume_id, const std::string& node_id) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("unpublish a volume in", file_, [&] { Use(writer_->unpublish, volume_id, node_id).Exec(); });
}

absl::StatusOr<std::uint64_t> CatalogStore::BytesIn(const std::string& pool) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("add up the volumes of", file_, [&] {
    Use row(reader_->bytes_in, pool);
    row.Step();
    return static_cast<std::uint64_t>(row.Number(0));
  });
}

absl::StatusOr<std::vector<PoolCount>> CatalogStore::CountByPool() {
  return Guarded("count the volumes of", file_, [&] {
    return CountsIn(database_->counter(),
                    "SELECT pool, state, COUNT(*), SUM(capacity_bytes) FROM volumes GROUP BY pool, state");
  });
}

absl::StatusOr<std::vector<UnfinishedRecord>> CatalogStore::NameUnfinished() {
  return Guarded("list the unfinished volumes of", file_, [&] {
    return UnfinishedIn(database_->counter(), "SELECT id, pool FROM volumes WHERE state <> 'ready'");
  });
}

absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindById(const std::string& id) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("look up a volume in", file_, [&] { return FirstVolumeIn(Use(reader_->by_id, id)); });
}

absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindByName(const std::string& name) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("look up a volume in", file_, [&] { return FirstVolumeIn(Use(reader_->by_name, name)); });
}

absl::StatusOr<std::vector<PublicationRecord>> CatalogStore::Publications(const std::string& volume_id) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("look up publications in", file_, [&] {
    std::vector<PublicationRecord> publications;
    for (Use row(reader_->publications, volume_id); row.Step();) {
      publications.push_back({.volume_id = row.Text(0),
                              .node_id = row.Text(1),
                              .access_type = row.Text(2),
                              .capability = row.Text(3),
                              .read_only = row.Number(4) != 0});
    }
    return publications;
  });
}

absl::StatusOr<std::vector<ListedVolume>> CatalogStore::ListReady(std::int64_t after, std::size_t most) {
  constexpr int kNode = kSelectedColumns;  // the column after them
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("list the volumes of", file_, [&] {
    std::vector<ListedVolume> volumes;
    for (Use row(reader_->list, after, static_cast<std::int64_t>(most)); row.Step();) {
      if (volumes.empty() || volumes.back().volume.seq != row.Number(0)) volumes.push_back({VolumeIn(row), {}});
      if (!row.IsNull(kNode)) volumes.back().nodes.push_back(row.Text(kNode));
    }
    return volumes;
  });
}

absl::StatusOr<std::vector<VolumeRecord>> CatalogStore::ListUnfinished() {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("list the volumes of", file_, [&] { return VolumesIn(Use(reader_->unfinished)); });
}

absl::StatusOr<std::vector<VolumeRecord>> CatalogStore::ListEphemeral() {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("list the volumes of", file_, [&] { return VolumesIn(Use(reader_->ephemeral)); });
}

}  // namespace mooring
