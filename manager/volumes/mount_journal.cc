#include "manager/volumes/mount_journal.h"

#include <utility>

#include "base/status.h"

namespace mooring::manager {

MountJournal::MountJournal(RecordsStore& store, std::string host) : store_(store), host_(std::move(host)) {}

absl::StatusOr<std::unique_ptr<MountJournal>> MountJournal::Open(RecordsStore& store, std::string host) {
  std::unique_ptr<MountJournal> journal(new MountJournal(store, std::move(host)));
  MOORING_ASSIGN_OR_RETURN(std::vector<MountRecord> records, store.ListMounts(journal->host_));
  for (MountRecord& record : records) {
    auto key = std::make_pair(record.allocation, record.request);
    journal->records_.emplace(std::move(key), std::move(record));
  }
  return journal;
}

// Written down first, then known: whoever finds it here finds it after a crash, too.
absl::Status MountJournal::Put(MountRecord& record, Durability durability) {
  Changes changes;
  changes.Put(host_, record);
  if (durability == Durability::kOrdered) changes.MayBeLostAtPowerCut();
  MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, store_.Commit(changes));
  record.revisions.modify = revision;
  if (record.revisions.create == 0) record.revisions.create = revision;
  const std::lock_guard<std::mutex> lock(mutex_);
  records_[{record.allocation, record.request}] = record;
  return absl::OkStatus();
}

// May be lost: what a power cut brings back is an intent or an unmounting, and goes as it went now.
absl::Status MountJournal::Remove(const MountRecord& record) {
  Changes changes;
  changes.Delete(host_, record).MayBeLostAtPowerCut();
  MOORING_RETURN_IF_ERROR(store_.Commit(changes).status());
  const std::lock_guard<std::mutex> lock(mutex_);
  records_.erase({record.allocation, record.request});
  return absl::OkStatus();
}

std::optional<MountRecord> MountJournal::Find(const std::string& allocation, const std::string& request) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find({allocation, request});
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::optional<MountRecord> MountJournal::FindAttached(const std::string& attach_path) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const MountRecord* newest = nullptr;
  for (const auto& [key, record] : records_) {
    if (record.attach_path != attach_path) continue;
    if (newest == nullptr || record.revisions.create > newest->revisions.create) newest = &record;
  }
  if (newest == nullptr) return std::nullopt;
  return *newest;
}

std::vector<MountRecord> MountJournal::All() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<MountRecord> all;
  for (const auto& [key, record] : records_) all.push_back(record);
  return all;
}

std::vector<MountRecord> MountJournal::Of(const VolumeKey& volume) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<MountRecord> of_volume;
  for (const auto& [key, record] : records_) {
    if (record.volume == volume) of_volume.push_back(record);
  }
  return of_volume;
}

}  // namespace mooring::manager
