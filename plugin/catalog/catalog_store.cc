#include "plugin/catalog/catalog_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/catalog_database.h"
#include "plugin/model/stored_propagation.h"
#include "sqlite/sqlite.h"

namespace mooring {
namespace {

constexpr int kSchemaVersion = 2;

constexpr char kSchema[] = R"(
  CREATE TABLE volumes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting')),
    capacity_bytes INTEGER NOT NULL,
    fs_type TEXT NOT NULL);
  CREATE TABLE publications (
    volume_id TEXT NOT NULL REFERENCES volumes(id) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    access_type TEXT NOT NULL,
    capability TEXT NOT NULL,
    read_only INTEGER NOT NULL,
    PRIMARY KEY (volume_id, node_id)) WITHOUT ROWID;
  CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE INDEX publications_by_node ON publications(node_id);
  CREATE INDEX unfinished_volumes ON volumes(state) WHERE state <> 'ready';
)";

// Columns that nothing ever read go; the first catalogs had no settings.
constexpr char kFromVersion1[] = R"(
  CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  ALTER TABLE volumes DROP COLUMN access_types;
  ALTER TABLE volumes DROP COLUMN created_at;
)";

// What only some volumes have is a setting: so the tables are those that older programs know, which may have the
// catalog again, and an upgrade writes nothing (the disk may be full). An older program that deletes such a volume
// leaves the settings behind, without effect: no id is given twice.
constexpr char kVolumeColumns[] =
    "seq, id, name, state, capacity_bytes, fs_type, "
    "(SELECT value FROM settings WHERE key = 'propagation of ' || id), "
    "(SELECT value FROM settings WHERE key = 'pool of ' || id), "
    "(SELECT value FROM settings WHERE key = 'source of ' || id), "
    "(SELECT value FROM settings WHERE key = 'parameters of ' || id), "
    "(SELECT value FROM settings WHERE key = 'ephemeral of ' || id), "
    "(SELECT value FROM settings WHERE key = 'block only of ' || id), "
    "(SELECT value FROM settings WHERE key = 'asked of ' || id)";
constexpr int kVolumeColumnCount = 13;

struct Detail {
  std::string key;    // of `settings`
  std::string value;  // empty: the volume has none
};

std::string TuningKey(const std::string& id) { return "parameters of " + id; }

Detail AskedBytesOf(const std::string& id, std::uint64_t bytes, std::uint64_t asked) {
  return {"asked of " + id, asked == 0 || asked == bytes ? "" : fmt::format("{}", asked)};
}

std::vector<Detail> DetailsOf(const VolumeRecord& volume) {
  return {{"propagation of " + volume.id, volume.propagation ? PropagationText(volume.propagation) : ""},
          {"pool of " + volume.id, volume.pool == kDefaultPool ? "" : volume.pool},
          {"source of " + volume.id, volume.source},
          {TuningKey(volume.id), ToText(volume.tuning)},
          {"ephemeral of " + volume.id, volume.ephemeral},
          {"block only of " + volume.id, volume.block_only ? "true" : ""},
          AskedBytesOf(volume.id, volume.bytes, volume.asked_bytes)};
}

VolumeRecord VolumeIn(Use& row) {
  return {.seq = row.Number(0),
          .id = row.Text(1),
          .name = row.Text(2),
          .state = ParseState(row.Text(3)),
          .bytes = static_cast<std::uint64_t>(row.Number(4)),
          .fs_type = row.Text(5),
          .propagation = PropagationIn(row.Text(6)),  // no row, no word
          .pool = row.IsNull(7) ? std::string(kDefaultPool) : row.Text(7),
          .source = row.Text(8),
          .tuning = TuningIn(row.Text(9)),
          .ephemeral = row.Text(10),
          .block_only = !row.IsNull(11),
          .asked_bytes = static_cast<std::uint64_t>(row.IsNull(12) ? row.Number(4) : row.Number(12))};
}

// The version found, after an empty file has got its tables, an older one those of now.
int PrepareSchema(SQLite::Database& database, const std::function<bool()>& may_begin) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version < 0 || version >= kSchemaVersion) return version;
  if (version == 0 && !may_begin()) return version;
  if (version == 0) database.exec(kSchema);
  if (version == 1) database.exec(kFromVersion1);
  database.exec(fmt::format("PRAGMA user_version={}", kSchemaVersion));
  transaction.commit();
  return kSchemaVersion;
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

// If there were a fourth word, "ready" is the reading that destroys nothing.
VolumeState ParseState(std::string_view text) {
  if (text == "creating") return VolumeState::kCreating;
  if (text == "deleting") return VolumeState::kDeleting;
  return VolumeState::kReady;
}

struct CatalogStore::Writer {
  explicit Writer(CatalogDatabase::Connection& connection)
      : mutex(connection.mutex),
        database(connection.database),
        insert(database,
               "INSERT INTO volumes (id, name, state, capacity_bytes, fs_type) VALUES (?, ?, ?, ?, ?) "
               "ON CONFLICT DO NOTHING"),
        set(database, "INSERT OR REPLACE INTO settings (key, value) VALUES (?, ?)"),
        unset(database, "DELETE FROM settings WHERE key = ?"),
        move(database, "UPDATE volumes SET state = ?3 WHERE id = ?1 AND state = ?2"),
        set_bytes(database, "UPDATE volumes SET capacity_bytes = ?2 WHERE id = ?1"),
        remove(database, "DELETE FROM volumes WHERE id = ?"),
        // One statement, so that two calls (or processes) cannot both take the last place on the node.
        publish(database,
                "INSERT OR REPLACE INTO publications (volume_id, node_id, access_type, capability, read_only) "
                "SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?6 = 0 OR ?6 > "
                "(SELECT COUNT(*) FROM publications WHERE node_id = ?2 AND volume_id <> ?1)"),
        unpublish(database, "DELETE FROM publications WHERE volume_id = ?1 AND (?2 = '' OR node_id = ?2)") {}

  std::mutex& mutex;
  SQLite::Database& database;
  SQLite::Statement insert, set, unset, move, set_bytes, remove, publish, unpublish;
};

struct CatalogStore::Reader {
  explicit Reader(CatalogDatabase::Connection& connection)
      : mutex(connection.mutex),
        by_id(connection.database, fmt::format("SELECT {} FROM volumes WHERE id = ?", kVolumeColumns)),
        by_name(connection.database, fmt::format("SELECT {} FROM volumes WHERE name = ?", kVolumeColumns)),
        publications(connection.database,
                     "SELECT volume_id, node_id, access_type, capability, read_only FROM publications "
                     "WHERE volume_id = ? ORDER BY node_id"),
        list(connection.database,
             fmt::format("SELECT {}, node_id FROM (SELECT * FROM volumes WHERE state = 'ready' AND seq > ? AND NOT "
                         "EXISTS (SELECT 1 FROM settings WHERE key = 'ephemeral of ' || id) "
                         "ORDER BY seq LIMIT ?) LEFT JOIN publications ON volume_id = id "
                         "ORDER BY seq, node_id",
                         kVolumeColumns)),
        unfinished(connection.database,
                   fmt::format("SELECT {} FROM volumes WHERE state <> 'ready' ORDER BY seq", kVolumeColumns)),
        ephemeral(connection.database,
                  fmt::format("SELECT {} FROM volumes WHERE id IN (SELECT substr(key, 14) FROM settings "
                              "WHERE key > 'ephemeral of ' AND key < 'ephemeral of~') ORDER BY seq",
                              kVolumeColumns)),
        bytes_in(connection.database,
                 fmt::format("SELECT COALESCE(SUM(capacity_bytes), 0) FROM volumes LEFT JOIN settings "
                             "ON key = 'pool of ' || id WHERE COALESCE(value, '{}') = ?",
                             kDefaultPool)) {}

  std::mutex& mutex;
  SQLite::Statement by_id, by_name, publications, list, unfinished, ephemeral, bytes_in;
};

CatalogStore::CatalogStore(std::shared_ptr<CatalogDatabase> database)
    : database_(std::move(database)), path_(database_->path()) {}
CatalogStore::~CatalogStore() = default;

absl::StatusOr<std::unique_ptr<CatalogStore>> CatalogStore::Open(const std::string& path, const MayBegin& may_begin) {
  // Before the file is made: a refused start leaves nothing behind.
  if (may_begin && ::access(path.c_str(), F_OK) != 0) MOORING_RETURN_IF_ERROR(may_begin());
  return RepeatWhileBusy([&] { return TryOpen(path, may_begin); });
}

absl::StatusOr<std::unique_ptr<CatalogStore>> CatalogStore::TryOpen(const std::string& path,
                                                                    const MayBegin& may_begin) {
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<CatalogDatabase> database, CatalogDatabase::Open(path));
  std::unique_ptr<CatalogStore> store(new CatalogStore(std::move(database)));
  CatalogDatabase& opened = *store->database_;
  absl::Status begun;
  const auto begins = [&] { return (begun = may_begin ? may_begin() : absl::OkStatus()).ok(); };
  MOORING_ASSIGN_OR_RETURN(const int version,
                           Guarded("open", path, [&] { return PrepareSchema(opened.writer().database, begins); }));
  MOORING_RETURN_IF_ERROR(begun);
  if (version != kSchemaVersion) {
    return FailedPrecondition(
        fmt::format("the volume catalog {} has schema version {}, and this mooring-plugin knows {}: "
                    "run the version that made it, or a newer one",
                    Quote(path), version, kSchemaVersion));
  }
  MOORING_RETURN_IF_ERROR(Guarded("open", path, [&] {
    store->writer_ = std::make_unique<Writer>(opened.writer());
    store->reader_ = std::make_unique<Reader>(opened.reader());
  }));
  return store;
}

absl::StatusOr<std::string> CatalogStore::KeepNodeId(const std::string& wanted) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("look up the node of", path_, [&] {
    SQLite::Statement recorded(writer_->database, "SELECT value FROM settings WHERE key = 'node_id'");
    if (recorded.executeStep() && recorded.getColumn(0).getString() == wanted) return wanted;
    recorded.reset();
    SQLite::Statement keep(writer_->database,
                           "INSERT INTO settings (key, value) VALUES ('node_id', ?) ON CONFLICT (key) DO UPDATE "
                           "SET value = excluded.value WHERE NOT EXISTS (SELECT 1 FROM volumes)");
    keep.bind(1, wanted);
    keep.exec();
    recorded.executeStep();
    return recorded.getColumn(0).getString();
  });
}

absl::StatusOr<bool> CatalogStore::Insert(const VolumeRecord& volume) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("add a volume to", path_, [&] {
    SQLite::Transaction both(writer_->database, SQLite::TransactionBehavior::IMMEDIATE);
    const bool added = Use(writer_->insert, volume.id, volume.name, std::string(StateText(volume.state)),
                           static_cast<std::int64_t>(volume.bytes), volume.fs_type)
                           .Exec() == 1;
    for (const Detail& detail : DetailsOf(volume)) {
      if (added && !detail.value.empty()) Use(writer_->set, detail.key, detail.value).Exec();
    }
    both.commit();
    return added;
  });
}

absl::StatusOr<bool> CatalogStore::Move(const std::string& id, VolumeState from, VolumeState to) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("change a volume in", path_, [&] {
    return Use(writer_->move, id, std::string(StateText(from)), std::string(StateText(to))).Exec() == 1;
  });
}

absl::Status CatalogStore::SetBytes(const std::string& id, std::uint64_t bytes, std::uint64_t asked) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("change a volume in", path_, [&] {
    SQLite::Transaction both(writer_->database, SQLite::TransactionBehavior::IMMEDIATE);
    Use(writer_->set_bytes, id, static_cast<std::int64_t>(bytes)).Exec();
    const Detail detail = AskedBytesOf(id, bytes, asked);
    if (detail.value.empty()) {
      Use(writer_->unset, detail.key).Exec();
    } else {
      Use(writer_->set, detail.key, detail.value).Exec();
    }
    both.commit();
  });
}

absl::Status CatalogStore::SetTuning(const std::string& id, const VolumeTuning& tuning) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("change a volume in", path_, [&] {
    const std::string text = ToText(tuning);
    if (text.empty()) {
      Use(writer_->unset, TuningKey(id)).Exec();
    } else {
      Use(writer_->set, TuningKey(id), text).Exec();
    }
  });
}

absl::Status CatalogStore::Remove(const std::string& id) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("remove a volume from", path_, [&] {
    SQLite::Transaction both(writer_->database, SQLite::TransactionBehavior::IMMEDIATE);
    Use(writer_->remove, id).Exec();
    VolumeRecord gone;
    gone.id = id;
    for (const Detail& detail : DetailsOf(gone)) Use(writer_->unset, detail.key).Exec();
    both.commit();
  });
}

absl::StatusOr<bool> CatalogStore::PutPublication(const PublicationRecord& publication, std::int64_t most_volumes) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("publish a volume in", path_, [&] {
    return Use(writer_->publish, publication.volume_id, publication.node_id, publication.access_type,
               publication.capability, publication.read_only ? 1 : 0, most_volumes)
               .Exec() == 1;
  });
}

absl::Status CatalogStore::RemovePublications(const std::string& volume_id, const std::string& node_id) {
  const std::lock_guard<std::mutex> lock(writer_->mutex);
  return Guarded("unpublish a volume in", path_, [&] { Use(writer_->unpublish, volume_id, node_id).Exec(); });
}

absl::StatusOr<std::uint64_t> CatalogStore::BytesIn(const std::string& pool) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("add up the volumes of", path_, [&] {
    Use row(reader_->bytes_in, pool);
    row.Step();
    return static_cast<std::uint64_t>(row.Number(0));
  });
}

absl::StatusOr<std::vector<PoolCount>> CatalogStore::CountByPool() {
  return Guarded("count the volumes of", path_, [&] {
    return CountsIn(database_->counter(),
                    fmt::format("SELECT COALESCE(value, '{}'), state, COUNT(*), SUM(capacity_bytes) FROM volumes "
                                "LEFT JOIN settings ON key = 'pool of ' || id GROUP BY 1, 2",
                                kDefaultPool));
  });
}

absl::StatusOr<std::vector<UnfinishedRecord>> CatalogStore::NameUnfinished() {
  return Guarded("list the unfinished volumes of", path_, [&] {
    return UnfinishedIn(database_->counter(),
                        fmt::format("SELECT id, COALESCE(value, '{}') FROM volumes "
                                    "LEFT JOIN settings ON key = 'pool of ' || id WHERE state <> 'ready'",
                                    kDefaultPool));
  });
}

absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindById(const std::string& id) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("look up a volume in", path_, [&] {
    Use row(reader_->by_id, id);
    return row.Step() ? std::optional<VolumeRecord>(VolumeIn(row)) : std::nullopt;
  });
}

absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindByName(const std::string& name) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("look up a volume in", path_, [&] {
    Use row(reader_->by_name, name);
    return row.Step() ? std::optional<VolumeRecord>(VolumeIn(row)) : std::nullopt;
  });
}

absl::StatusOr<std::vector<PublicationRecord>> CatalogStore::Publications(const std::string& volume_id) {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("look up publications in", path_, [&] {
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
  constexpr int kNode = kVolumeColumnCount;  // behind them
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("list the volumes of", path_, [&] {
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
  return Guarded("list the volumes of", path_, [&] {
    std::vector<VolumeRecord> volumes;
    for (Use row(reader_->unfinished); row.Step();) volumes.push_back(VolumeIn(row));
    return volumes;
  });
}

absl::StatusOr<std::vector<VolumeRecord>> CatalogStore::ListEphemeral() {
  const std::lock_guard<std::mutex> lock(reader_->mutex);
  return Guarded("list the volumes of", path_, [&] {
    std::vector<VolumeRecord> volumes;
    for (Use row(reader_->ephemeral); row.Step();) volumes.push_back(VolumeIn(row));
    return volumes;
  });
}

}  // namespace mooring
