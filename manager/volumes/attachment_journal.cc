#include "manager/volumes/attachment_journal.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/state/keys.h"

namespace mooring::manager {

AttachmentJournal::AttachmentJournal(RecordsStore& store, std::string host) : store_(store), host_(std::move(host)) {}

absl::StatusOr<std::unique_ptr<AttachmentJournal>> AttachmentJournal::Open(RecordsStore& store, std::string host) {
  std::unique_ptr<AttachmentJournal> journal(new AttachmentJournal(store, std::move(host)));
  MOORING_ASSIGN_OR_RETURN(std::vector<AttachmentRecord> records, store.ListMounts(journal->host_));
  for (const AttachmentRecord& record : records) journal->Insert(record);
  return journal;
}

// Stored first, then kept in memory: a record that is found here survives a crash.
absl::Status AttachmentJournal::Put(AttachmentRecord& record, Durability durability) {
  Changes changes;
  changes.Put(host_, record).With(durability);
  MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, store_.Commit(changes));
  record.revisions.SetStored(revision);
  const std::lock_guard<std::mutex> lock(mutex_);
  Insert(record);
  return absl::OkStatus();
}

absl::Status AttachmentJournal::Remove(const AttachmentRecord& record, Durability durability) {
  Changes changes;
  changes.Delete(host_, record).With(durability);
  MOORING_RETURN_IF_ERROR(store_.Commit(changes).status());
  const std::lock_guard<std::mutex> lock(mutex_);
  Erase({record.allocation, record.request});
  return absl::OkStatus();
}

void AttachmentJournal::Insert(const AttachmentRecord& record) {
  const Key key(record.allocation, record.request);
  Erase(key);
  of_volume_[record.volume].insert(key);
  if (!record.attach_path.empty()) at_path_[record.attach_path].insert(key);
  records_.emplace(key, record);
}

void AttachmentJournal::Erase(const Key& key) {
  const auto found = records_.find(key);
  if (found == records_.end()) return;
  const auto remove_from = [&](auto& index, const auto& of) {
    const auto at = index.find(of);
    if (at == index.end()) return;
    at->second.erase(key);
    if (at->second.empty()) index.erase(at);
  };
  remove_from(of_volume_, found->second.volume);
  remove_from(at_path_, found->second.attach_path);
  records_.erase(found);
}

std::optional<AttachmentRecord> AttachmentJournal::Find(const std::string& allocation,
                                                        const std::string& request) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find({allocation, request});
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::optional<AttachmentRecord> AttachmentJournal::FindAttached(const std::string& attach_path) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = at_path_.find(attach_path);
  if (at == at_path_.end()) return std::nullopt;
  const AttachmentRecord* newest = nullptr;
  for (const Key& key : at->second) {
    const AttachmentRecord& record = records_.at(key);
    if (newest == nullptr || record.revisions.create > newest->revisions.create) newest = &record;
  }
  return *newest;
}

std::vector<AttachmentRecord> AttachmentJournal::All() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<AttachmentRecord> all;
  for (const auto& [key, record] : records_) all.push_back(record);
  return all;
}

bool AttachmentJournal::IsUsed(const Claim& claim) const {
  if (!CheckReadable(claim.allocation).ok()) return true;
  const std::vector<AttachmentRecord> records = Of(claim.volume);
  return std::any_of(records.begin(), records.end(),
                     [&](const AttachmentRecord& record) { return AreOfOneClaim(record, claim); });
}

absl::Status AttachmentJournal::CheckReadable(const std::string& allocation, const std::string& request) const {
  const std::string key = MountStateKey(host_, allocation, request);
  return store_.IsUnreadable(key) ? CheckPrefix(key) : absl::OkStatus();
}

absl::Status AttachmentJournal::CheckReadable(const std::string& allocation) const {
  return CheckPrefix(MountsPrefix(host_, allocation));
}

absl::Status AttachmentJournal::CheckReadable() const { return CheckPrefix(MountsPrefix(host_)); }

absl::Status AttachmentJournal::CheckPrefix(const std::string& prefix) const {
  const absl::Status status = store_.CheckReadable(prefix);
  return status.ok() ? status : Internal("{}; then restart the manager", Message(status));
}

AttachmentJournal::Counts AttachmentJournal::CountByPhase() const {
  Counts counts;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, record] : records_) {
    Count& count = counts[record.phase];
    ++count.all;
    if (!record.problem.empty()) ++count.with_problem;
  }
  return counts;
}

std::vector<AttachmentRecord> AttachmentJournal::Of(const VolumeKey& volume) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<AttachmentRecord> of_volume;
  const auto keys = of_volume_.find(volume);
  if (keys == of_volume_.end()) return of_volume;
  for (const Key& key : keys->second) of_volume.push_back(records_.at(key));
  return of_volume;
}

}  // namespace mooring::manager
