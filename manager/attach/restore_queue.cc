#include "manager/attach/restore_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/file/path.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

bool IsMounted(const AttachmentRecord& record) { return record.phase == AttachmentRecord::Phase::kMounted; }

RestoreQueue::Key QueueKey(const AttachmentRecord& record) { return {record.allocation, record.request}; }

// The nearest record whose attach path lies above that of `record`.
std::optional<RestoreQueue::Key> ParentIn(const std::map<std::string, RestoreQueue::Key>& by_path,
                                          const AttachmentRecord& record) {
  for (std::string_view path = record.attach_path; path.size() > 1;) {
    path = ParentOf(path);
    if (const auto found = by_path.find(std::string(path)); found != by_path.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace

void RestoreQueue::Restore(std::vector<AttachmentRecord> records) {
  const Clock::time_point began = Clock::now();
  std::stable_sort(records.begin(), records.end(),
                   [](const AttachmentRecord& a, const AttachmentRecord& b) { return !IsMounted(a) && IsMounted(b); });
  std::map<std::string, Key> by_path;
  for (const AttachmentRecord& record : records) {
    if (IsMounted(record) && !record.attach_path.empty()) by_path.emplace(record.attach_path, QueueKey(record));
  }
  std::vector<AttachmentRecord> first;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    restore_began_ = began;
    if (records.empty()) restored_in_ = Clock::now() - began;
    for (const AttachmentRecord& record : records) {
      restoring_.insert(QueueKey(record));
      const std::optional<Key> parent = IsMounted(record) ? ParentIn(by_path, record) : std::nullopt;
      (parent ? children_[*parent] : first).push_back(record);
    }
  }
  for (const AttachmentRecord& record : first) Schedule(record, Clock::duration::zero());
}

void RestoreQueue::Schedule(const AttachmentRecord& record, Clock::duration delay) {
  const Key key = QueueKey(record);
  work_.Push({.key = fmt::format("{} of {}", Quote(key.second), Quote(key.first)),
              .lane = record.plugin,
              .attempt = [this, key] { return Run(key); },
              .problem = record.problem},
             delay);
}

absl::Status RestoreQueue::Run(const Key& key) {
  const Outcome outcome = attempt_(key);
  if (outcome.is_final) Conclude(key);
  return outcome.status;
}

void RestoreQueue::Conclude(const Key& key) {
  std::vector<AttachmentRecord> children;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool was_restoring = restoring_.erase(key) == 1;
    if (was_restoring && restoring_.empty()) restored_in_ = Clock::now() - restore_began_;
    if (const auto waiting = children_.find(key); waiting != children_.end()) {
      children = std::move(waiting->second);
      children_.erase(waiting);
    }
    changed_.notify_all();
  }
  for (const AttachmentRecord& child : children) Schedule(child, Clock::duration::zero());
}

void RestoreQueue::WaitUntilRestored(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, until, [this] { return restoring_.empty() || stopping_; });
}

int RestoreQueue::restoring() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(restoring_.size());
}

std::optional<Clock::duration> RestoreQueue::restored_in() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return restored_in_;
}

void RestoreQueue::BeginStop() {
  work_.BeginStop();
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void RestoreQueue::Stop() {
  BeginStop();
  work_.Stop();
}

}  // namespace mooring::manager
