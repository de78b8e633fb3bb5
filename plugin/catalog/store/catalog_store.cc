#include "plugin/catalog/store/catalog_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <unistd.h>

#include <utility>

#include "base/status.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/model/propagation_column.h"
#include "sqlite/sqlite.h"

namespace mooring {
namespace {

// The columns in the order of the table.
VolumeRecord VolumeIn(Use& row) {
  const auto bytes = static_cast<std::uint64_t>(row.Number(4));
  const auto asked_bytes = static_cast<std::uint64_t>(row.Number(5));
  return {.seq = row.Number(0),
          .id = WordIn(row, 1),
          .name = WordIn(row, 2),
          .state = ParseState(row.Text(3)),
          .bytes = bytes,
          .fs_type = WordIn(row, 6),
          .propagation = PropagationFromColumn(row.Text(9)),
          .pool = WordIn(row, 7),
          .source = WordIn(row, 8),
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

absl::StatusOr<std::vector<ListedVolume>> ReadyVolumesIn(CatalogDatabase& file, std::int64_t after, std::size_t most) {
  constexpr int kNode = 13;  // the column after those of a volume
  constexpr std::string_view kList =
      "SELECT listed.*, node_id FROM (SELECT * FROM volumes WHERE state = 'ready' AND seq > ? AND ephemeral = '' "
      "ORDER BY seq LIMIT ?) AS listed LEFT JOIN publications ON volume_id = id ORDER BY seq, node_id";
  const auto limit = static_cast<std::int64_t>(most);
  return file.Read("list the volumes of", [&](Statements& statements) {
    std::vector<ListedVolume> volumes;
    for (Use row = statements(kList, after, limit); row.Step();) {
      if (volumes.empty() || volumes.back().volume.seq != row.Number(0)) volumes.push_back({VolumeIn(row), {}});
      if (!row.IsNull(kNode)) volumes.back().nodes.push_back(WordIn(row, kNode));
    }
    return volumes;
  });
}

absl::StatusOr<std::vector<VolumeRecord>> UnfinishedIn(CatalogDatabase& file) {
  return file.Read("list the volumes of", [](Statements& statements) {
    return VolumesIn(statements("SELECT * FROM volumes WHERE state <> 'ready' ORDER BY seq"));
  });
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

CatalogStore::CatalogStore(std::shared_ptr<CatalogFiles> files) : files_(std::move(files)) {}

absl::StatusOr<std::unique_ptr<CatalogStore>> CatalogStore::Open(const std::string& path, const MayBegin& may_begin) {
  // It is asked before the file is created: a refused start leaves nothing behind.
  if (may_begin && ::access(path.c_str(), F_OK) != 0) MOORING_RETURN_IF_ERROR(may_begin());
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<CatalogDatabase> database,
                           RepeatWhileBusy([&] { return CatalogDatabase::Open(path, may_begin); }));
  return std::unique_ptr<CatalogStore>(new CatalogStore(std::make_shared<CatalogFiles>(std::move(database))));
}

absl::StatusOr<std::string> CatalogStore::KeepNodeId(const std::string& wanted) {
  return files_->local().Write("look up the node of", [&](Statements& statements) {
    const auto recorded = [&] {
      Use row = statements("SELECT id FROM node");
      return row.Step() ? row.Text(0) : "";
    };
    if (recorded() == wanted) return wanted;  // a full disk takes no write, not even of the same value
    constexpr std::string_view kKeep =
        "INSERT INTO node VALUES (1, ?) ON CONFLICT (number) DO UPDATE SET id = excluded.id "
        "WHERE NOT EXISTS (SELECT 1 FROM volumes)";
    statements(kKeep, wanted).Exec();
    return recorded();
  });
}

absl::StatusOr<bool> CatalogStore::Insert(const VolumeRecord& volume) {
  return files_->Write(volume.id, "add a volume to", [&](Statements& statements) {
    return statements("INSERT INTO volumes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                      volume.id, volume.name, std::string(StateText(volume.state)),
                      static_cast<std::int64_t>(volume.bytes), static_cast<std::int64_t>(volume.asked_bytes),
                      volume.fs_type, volume.pool, volume.source, ToColumn(volume.propagation), ToText(volume.tuning),
                      volume.ephemeral, volume.block_only ? 1 : 0)
               .Exec() == 1;
  });
}

absl::StatusOr<bool> CatalogStore::Move(const std::string& id, VolumeState from, VolumeState to) {
  return files_->Write(id, "change a volume in", [&](Statements& statements) {
    constexpr std::string_view kMove = "UPDATE volumes SET state = ?3 WHERE id = ?1 AND state = ?2";
    return statements(kMove, id, std::string(StateText(from)), std::string(StateText(to))).Exec() == 1;
  });
}

absl::Status CatalogStore::SetBytes(const std::string& id, std::uint64_t bytes, std::uint64_t asked) {
  return files_->Write(id, "change a volume in", [&](Statements& statements) {
    statements("UPDATE volumes SET capacity_bytes = ?2, asked_bytes = ?3 WHERE id = ?1", id,
               static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(asked))
        .Exec();
  });
}

absl::Status CatalogStore::SetTuning(const std::string& id, const VolumeTuning& tuning) {
  return files_->Write(id, "change a volume in", [&](Statements& statements) {
    statements("UPDATE volumes SET tuning = ?2 WHERE id = ?1", id, ToText(tuning)).Exec();
  });
}

absl::Status CatalogStore::Delete(const std::string& id) {
  return files_->Write(id, "remove a volume from",
                       [&](Statements& statements) { statements("DELETE FROM volumes WHERE id = ?", id).Exec(); });
}

absl::StatusOr<bool> CatalogStore::PutPublication(const PublicationRecord& publication, std::int64_t most_volumes) {
  // It is a single statement, so that two calls (or processes) cannot both take the last place on the node.
  constexpr std::string_view kPublish =
      "INSERT OR REPLACE INTO publications (volume_id, node_id, access_type, capability, read_only) "
      "SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?6 = 0 OR ?6 > "
      "(SELECT COUNT(*) FROM publications WHERE node_id = ?2 AND volume_id <> ?1)";
  return files_->Write(publication.volume_id, "publish a volume in", [&](Statements& statements) {
    return statements(kPublish, publication.volume_id, publication.node_id, publication.access_type,
                      publication.capability, publication.read_only ? 1 : 0, most_volumes)
               .Exec() == 1;
  });
}

absl::Status CatalogStore::DeletePublications(const std::string& volume_id, const std::string& node_id) {
  return files_->Write(volume_id, "unpublish a volume in", [&](Statements& statements) {
    statements("DELETE FROM publications WHERE volume_id = ?1 AND (?2 = '' OR node_id = ?2)", volume_id, node_id)
        .Exec();
  });
}

absl::StatusOr<std::uint64_t> CatalogStore::BytesIn(const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfPool(pool));
  return file->Read("add up the volumes of", [&](Statements& statements) {
    Use row = statements("SELECT COALESCE(SUM(capacity_bytes), 0) FROM volumes WHERE pool = ?", pool);
    return row.Step() ? static_cast<std::uint64_t>(row.Number(0)) : 0;
  });
}

absl::StatusOr<std::vector<PoolCount>> CatalogStore::CountByPool() {
  return files_->Join(
      [](CatalogDatabase& file) {
        return file.Count("count the volumes of",
                          "SELECT pool, state, COUNT(*), SUM(capacity_bytes) FROM volumes GROUP BY pool, state");
      },
      IfAway::kSkip);
}

absl::StatusOr<std::vector<UnfinishedRecord>> CatalogStore::NameUnfinished() {
  return files_->Join(
      [](CatalogDatabase& file) {
        return file.NameUnfinished("list the unfinished volumes of",
                                   "SELECT id, pool FROM volumes WHERE state <> 'ready'");
      },
      IfAway::kSkip);
}

absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindById(const std::string& id) {
  return files_->Read(id, "look up a volume in", [&](Statements& statements) {
    return FirstVolumeIn(statements("SELECT * FROM volumes WHERE id = ?", id));
  });
}

absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindByName(const std::string& name, std::string_view tag) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfTag(tag));
  return file->Read("look up a volume in", [&](Statements& statements) {
    return FirstVolumeIn(statements("SELECT * FROM volumes WHERE name = ?", name));
  });
}

// The text of a tuning has words with spaces between them, and such a name has no wildcard.
absl::StatusOr<std::optional<VolumeRecord>> CatalogStore::FindBySubDir(const std::string& pool,
                                                                       const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfPool(pool));
  constexpr std::string_view kFind =
      "SELECT * FROM volumes WHERE ' ' || tuning || ' ' GLOB '* subDir=' || ? || ' *' ORDER BY seq LIMIT 1";
  return file->Read("look up a volume in",
                    [&](Statements& statements) { return FirstVolumeIn(statements(kFind, name)); });
}

absl::StatusOr<std::vector<PublicationRecord>> CatalogStore::Publications(const std::string& volume_id) {
  return files_->Read(volume_id, "look up publications in", [&](Statements& statements) {
    std::vector<PublicationRecord> publications;
    for (Use row = statements("SELECT * FROM publications WHERE volume_id = ? ORDER BY node_id", volume_id);
         row.Step();) {
      publications.push_back({.volume_id = row.Text(0),
                              .node_id = row.Text(1),
                              .access_type = row.Text(2),
                              .capability = row.Text(3),
                              .read_only = row.Number(4) != 0});
    }
    return publications;
  });
}

absl::StatusOr<std::vector<ListedVolume>> CatalogStore::ListReady(std::int64_t after, std::size_t most,
                                                                  IfAway if_away) {
  return files_->Page(
      after, most, ReadyVolumesIn, [](ListedVolume& listed) -> std::int64_t& { return listed.volume.seq; }, if_away);
}

absl::StatusOr<std::vector<VolumeRecord>> CatalogStore::ListUnfinished() {
  return files_->Join(UnfinishedIn, IfAway::kSkip);
}

absl::StatusOr<std::vector<VolumeRecord>> CatalogStore::ListUnfinishedIn(const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, files_->OfPool(pool));
  return UnfinishedIn(*file);
}

absl::StatusOr<std::vector<VolumeRecord>> CatalogStore::ListEphemeral() {
  return files_->local().Read("list the volumes of", [](Statements& statements) {
    return VolumesIn(statements("SELECT * FROM volumes WHERE ephemeral <> '' ORDER BY seq"));
  });
}

}  // namespace mooring
