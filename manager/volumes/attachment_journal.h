// The records of this host's attachments (AttachmentRecord), in the state and in memory.
//
// Only Attachments writes it. VolumeManager reads it to find other users of a staged volume, and the servers read it to
// list attachments. Safe from several threads.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

class AttachmentJournal {
 public:
  // Reads the records of `host`. `store` outlives the journal.
  static absl::StatusOr<std::unique_ptr<AttachmentJournal>> Open(RecordsStore& store, std::string host);

  // Inserts or updates, and sets the new revisions in `record`. ABORTED: it was changed since it was read.
  absl::Status Put(AttachmentRecord& record, Durability durability);
  absl::Status Remove(const AttachmentRecord& record, Durability durability);

  std::optional<AttachmentRecord> Find(const std::string& allocation, const std::string& request) const;
  std::optional<AttachmentRecord> FindAttached(const std::string& attach_path) const;  // the newest
  std::vector<AttachmentRecord> All() const;
  std::vector<AttachmentRecord> Of(const VolumeKey& volume) const;
  bool IsUsed(const Claim& claim) const;  // whether an attachment is of this claim, or may be (CheckReadable)

  // INTERNAL names a record that cannot be read: of this request, of this allocation, or of any. Its volume, mode and
  // path are unknown. Records are read at the start, so a repair needs a restart.
  absl::Status CheckReadable(const std::string& allocation, const std::string& request) const;
  absl::Status CheckReadable(const std::string& allocation) const;
  absl::Status CheckReadable() const;

  struct Count {
    std::size_t all = 0;
    std::size_t with_problem = 0;  // AttachmentRecord::problem
  };
  using Counts = std::map<AttachmentRecord::Phase, Count>;
  Counts CountByPhase() const;

 private:
  using Key = std::pair<std::string, std::string>;  // allocation and request

  AttachmentJournal(RecordsStore& store, std::string host);

  absl::Status CheckPrefix(const std::string& prefix) const;
  void Insert(const AttachmentRecord& record);
  void Erase(const Key& key);

  RecordsStore& store_;
  const std::string host_;
  mutable std::mutex mutex_;
  std::map<Key, AttachmentRecord> records_;
  std::map<VolumeKey, std::set<Key>> of_volume_;
  std::map<std::string, std::set<Key>> at_path_;  // by attach path
};

}  // namespace mooring::manager
