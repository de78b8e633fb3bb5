#include "manager/state/store_parts.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"

namespace mooring::manager {

absl::Status CheckKeys(const Transaction& transaction) {
  std::set<std::string_view> seen;
  const auto twice = [](std::string_view key) {
    return InvalidArgument("{} is changed twice in one transaction", Quote(key));
  };
  for (const std::string& key : transaction.deletes) {
    if (!seen.insert(key).second) return twice(key);
  }
  for (const Transaction::Put& put : transaction.puts) {
    if (!seen.insert(put.key).second) return twice(put.key);
  }
  return absl::OkStatus();
}

absl::Status CheckRevision(const Transaction::Compare& compare, std::int64_t found) {
  if (found == compare.modify_revision) return absl::OkStatus();
  if (found == 0) return Aborted("{} was deleted meanwhile: read it again", Quote(compare.key));
  return Aborted("{} has revision {} now, and the change was made to revision {}: read it again", Quote(compare.key),
                 found, compare.modify_revision);
}

class ChangeLog::Reader final : public Watch {
 public:
  Reader(std::shared_ptr<ChangeLog> log, std::string prefix) : log_(std::move(log)), prefix_(std::move(prefix)) {}
  ~Reader() override { log_->Remove(*this); }

  absl::StatusOr<std::vector<Change>> Next(std::chrono::steady_clock::time_point until) override {
    return log_->Next(*this, until);
  }

  bool Wants(const Change& change) const { return change.value.key.compare(0, prefix_.size(), prefix_) == 0; }

 private:
  const std::shared_ptr<ChangeLog> log_;
  const std::string prefix_;
};

void ChangeLog::Append(std::vector<Change> changes) {
  for (Change& change : changes) {
    if (IsSecret(change.value.key)) change.value.value = {};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  revisions_.push_back(std::move(changes));
  ++last_;
  Trim();
  changed_.notify_all();
}

std::unique_ptr<Watch> ChangeLog::StartWatch(const std::string& prefix, std::int64_t from) {
  auto reader = std::make_unique<Reader>(shared_from_this(), prefix);
  const std::lock_guard<std::mutex> lock(mutex_);
  positions_[reader.get()] = from;
  return reader;
}

void ChangeLog::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

absl::StatusOr<std::vector<Change>> ChangeLog::Next(Reader& reader, std::chrono::steady_clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (closed_) return absl::CancelledError("the manager is stopping");
    std::int64_t& position = positions_[&reader];
    if (Forgotten(position)) {
      return OutOfRange("revision {} is not kept any more, the oldest is {}: list again, and watch from there",
                        position, First());
    }
    std::vector<Change> changes = Read(reader);
    position = std::max(position, last_ + 1);
    if (!changes.empty()) return changes;
    if (changed_.wait_until(lock, until, [&] { return closed_ || positions_[&reader] <= last_; })) continue;
    return changes;
  }
}

std::vector<Change> ChangeLog::Read(Reader& reader) const {
  std::vector<Change> changes;
  for (std::int64_t revision = positions_.at(&reader); revision <= last_; ++revision) {
    for (const Change& change : revisions_[static_cast<std::size_t>(revision - First())]) {
      if (reader.Wants(change)) changes.push_back(change);
    }
  }
  return changes;
}

// Keeps revisions that a watch has not read, up to kMost. A watch of a future or forgotten revision keeps nothing.
void ChangeLog::Trim() {
  std::int64_t wanted = last_ + 1;
  for (const auto& [reader, position] : positions_) {
    if (!Forgotten(position)) wanted = std::min(wanted, position);
  }
  while (revisions_.size() > kMost || (revisions_.size() > kKept && First() < wanted)) revisions_.pop_front();
}

void ChangeLog::Remove(const Reader& reader) {
  const std::lock_guard<std::mutex> lock(mutex_);
  positions_.erase(&reader);
  Trim();
}

}  // namespace mooring::manager
