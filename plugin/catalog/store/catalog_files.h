// The files of the catalog: the local one, and one in each shared pool. A shared pool is a directory that several hosts
// mount. Its records lie beside its images, so that each host finds them. The id of a volume or snapshot tells in which
// file its record is (plugin/model/volume_id.h).
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/text/clean_text.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/model/volume_id.h"
#include "sqlite/sqlite.h"

namespace mooring {

// A word that an answer may contain. Bytes that are not UTF-8, in a damaged row, would make the whole answer
// unreadable.
inline std::string WordIn(Use& row, int column) { return CleanText(row.Text(column)); }

// A file of the catalog, its tables, and the connections that its stores share (catalog_store.h, snapshot_store.h). The
// local file has a WAL. The file of a shared pool has a rollback journal, the tag and the name of the pool, and its
// nodes. Reads and writes have a connection each, so that no read of the local file waits for the fsync of another
// call. Only the .cc files of the stores use it.
class CatalogDatabase {
 public:
  // Creates the file (0600) and its tables if they are missing, after asking `may_begin`. ABORTED: another process is
  // creating them. FAILED_PRECONDITION: the file has another schema version.
  static absl::StatusOr<std::shared_ptr<CatalogDatabase>> Open(const std::string& path,
                                                               const std::function<absl::Status()>& may_begin);
  // The same for the file of a shared pool. A new one gets the tag `new_tag`. FAILED_PRECONDITION also: its hosts know
  // the pool by another name.
  static absl::StatusOr<std::shared_ptr<CatalogDatabase>> OpenShared(const std::string& path, const std::string& pool,
                                                                     const std::string& new_tag,
                                                                     const std::function<absl::Status()>& may_begin);

  using OpenToRead = SQLite::Database (*)(const std::string& path);
  CatalogDatabase(DatabaseFile file, SQLite::Database writer, OpenToRead open);  // throws SQLite::Exception

  // Opens the file anew if another one has its path by now: its directory was mounted anew. Not thread-safe.
  absl::Status ReopenIfMoved();

  // The shared pool, and its tag. Empty: this is the local file.
  const std::string& pool() const { return pool_; }
  const std::string& tag() const { return tag_; }

  // They call `action` with the statements of a connection, under its lock. Errors: Guarded, with `what`.
  template <typename Action>
  auto Write(std::string_view what, Action action) {
    return writer_.Run(what, file_, action);
  }
  template <typename Action>
  auto Read(std::string_view what, Action action) {
    return reader_.Run(what, file_, action);
  }

  // These two read whole tables, on a connection that no other call waits for. `select` gives rows of pool, state,
  // number and bytes, or rows of id and pool.
  absl::StatusOr<std::vector<PoolCount>> Count(std::string_view what, std::string_view select);
  absl::StatusOr<std::vector<UnfinishedRecord>> NameUnfinished(std::string_view what, std::string_view select);

 private:
  template <typename Action>
  auto ReadTable(std::string_view what, Action action);

  const DatabaseFile file_;
  const OpenToRead open_;
  std::string pool_, tag_;
  std::pair<dev_t, ino_t> opened_ = {};  // the file, for ReopenIfMoved
  SharedConnection writer_;
  SharedConnection reader_;  // is closed first: the last connection to close tidies the WAL up
  std::mutex counter_mutex_;
  std::optional<SharedConnection> counter_;  // is opened by the first call
};

// A table of the local file, with a word for each pool. The column that is not `pool` has the word.
struct PoolMemory {
  std::string_view table, column;
};

class CatalogFiles {
 public:
  explicit CatalogFiles(std::shared_ptr<CatalogDatabase> local) { files_.push_back({.database = std::move(local)}); }

  // Opens the file of a shared pool, and returns the tag of the pool. Call it before the first use of the others.
  // FAILED_PRECONDITION: the file has another schema version, or another pool has this tag.
  absl::StatusOr<std::string> AddShared(const std::string& path, const std::string& pool,
                                        const std::function<absl::Status()>& may_begin);

  // Where a shared pool is not mounted, its directory is empty, and a new pool would begin there. So the local file
  // remembers the tag of each pool of AddShared. FAILED_PRECONDITION: it knows the pool. Ask it before a pool begins;
  // it creates nothing. Other records than before are accepted: someone put them there.
  absl::Status CheckBegins(const std::string& path, const std::string& pool) const;

  // The file of a shared pool that is opened later, at any time: the tag of the pool is known. While `answers` is an
  // error, it is the error of all calls for that file.
  void AddLater(const std::string& pool, const std::string& tag, std::function<absl::Status()> answers);
  // Opens that file, or makes sure that it is open. After that, the caller lets `answers` be OK. FAILED_PRECONDITION:
  // as for AddShared and CheckIdentity.
  absl::StatusOr<CatalogDatabase*> OpenLater(const std::string& path, const std::string& pool,
                                             const std::function<absl::Status()>& may_begin);
  // At the address of a pool may be another directory than before, or an empty one. So the file has a random identity,
  // and the local file remembers it from the first OpenLater on. FAILED_PRECONDITION: `path` has another one, or none.
  // It creates nothing.
  absl::Status CheckIdentity(const std::string& path, const std::string& pool) const;

  CatalogDatabase& local() const { return *files_.front().database; }
  absl::StatusOr<CatalogDatabase*> OfPool(std::string_view pool) const;

  // FAILED_PRECONDITION: it lies in a shared pool that the plugin was not started with.
  absl::StatusOr<CatalogDatabase*> OfId(std::string_view id) const { return OfTag(TagOfId(id)); }
  absl::StatusOr<CatalogDatabase*> OfTag(std::string_view tag) const;

  // CatalogDatabase::Write and Read of the file that has the id.
  template <typename Action>
  auto Write(std::string_view id, std::string_view what, Action action) const -> decltype(local().Write(what, action)) {
    MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, OfId(id));
    return file->Write(what, action);
  }
  template <typename Action>
  auto Read(std::string_view id, std::string_view what, Action action) const -> decltype(local().Read(what, action)) {
    MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const file, OfId(id));
    return file->Read(what, action);
  }

  // Calls `list(file)` for each file that answers, and joins the results. kSkip also leaves a file of AddLater out that
  // ceases to answer meanwhile.
  template <typename List>
  auto Join(List list, IfAway if_away = IfAway::kFail) const -> decltype(list(local())) {
    auto all = list(local());
    for (std::size_t i = 1; all.ok() && i < files_.size(); ++i) {
      if (!files_[i].answers().ok()) continue;
      auto more = list(*files_[i].database);
      if (!more.ok() && files_[i].is_late && if_away == IfAway::kSkip) continue;
      if (!more.ok()) return more.status();
      all->insert(all->end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
    }
    return all;
  }

  // Reads a page over all files: the first `most` records behind `after`. `list(file, after, most)` reads one of them
  // by the file's own numbers, and `seq(record)` is a reference to the number of a record, which becomes unique here.
  template <typename List, typename Seq>
  auto Page(std::int64_t after, std::size_t most, List list, Seq seq, IfAway if_away = IfAway::kFail) const
      -> decltype(list(local(), after, most)) {
    typename decltype(list(local(), after, most))::value_type page;
    for (std::size_t i = 0; i < files_.size() && page.size() < most; ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) << kSeqBits;
      if (after >= first + kMostSeq) continue;
      if (absl::Status answers = files_[i].answers(); !answers.ok()) {
        if (if_away == IfAway::kSkip) continue;
        return answers;
      }
      auto records = list(*files_[i].database, std::max<std::int64_t>(after - first, 0), most - page.size());
      if (!records.ok() && files_[i].is_late && if_away == IfAway::kSkip) continue;
      if (!records.ok()) return records.status();
      for (auto& record : *records) {
        seq(record) += first;
        page.push_back(std::move(record));
      }
    }
    return page;
  }

 private:
  static constexpr int kSeqBits = 48;  // the rest of a sequence number is the number of the file
  static constexpr std::int64_t kMostSeq = std::int64_t{1} << kSeqBits;

  struct File {
    std::string pool = {}, tag = {};
    std::function<absl::Status()> answers = [] { return absl::OkStatus(); };
    bool is_late = false;                                 // of AddLater
    std::shared_ptr<CatalogDatabase> database = nullptr;  // set before `answers` is OK
  };
  static absl::StatusOr<CatalogDatabase*> Opened(const File& file);
  absl::StatusOr<std::string> Remembered(const PoolMemory& memory, const std::string& pool) const;  // empty: new here
  absl::Status Remember(const PoolMemory& memory, const std::string& pool, const std::string& word) const;

  std::vector<File> files_;  // the local one is the first
};

}  // namespace mooring
