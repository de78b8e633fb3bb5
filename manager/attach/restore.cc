// What goes on in the background: the restoration at the start, and what failed, until it succeeds.
#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "manager/attach/attachments.h"

namespace mooring::manager {
namespace {

using Key = std::pair<std::string, std::string>;

const Attachments::OnStep kNobody = [](const std::string&) {};

bool IsRestored(const AttachmentRecord& record) { return record.phase == AttachmentRecord::Phase::kMounted; }

// It waits for its plugin; or it may be mounted yet, and what is attached below it then lies behind it, not beneath.
bool IsToCome(const AttachmentRecord& record, const absl::Status& status) {
  const bool again = IsWorthAnotherTry(status) || absl::IsCancelled(status);
  return absl::IsUnavailable(status) || (IsRestored(record) && again);
}

// What frees something goes first.
bool GoesBefore(const AttachmentRecord& a, const AttachmentRecord& b) { return !IsRestored(a) && IsRestored(b); }

// The one that has to be mounted before `record`, whose attach path lies below its; the nearest.
std::optional<Key> ParentIn(const std::map<std::string, Key>& by_path, const AttachmentRecord& record) {
  for (std::string_view path = record.attach_path; path.size() > 1;) {
    path = ParentOf(path);
    if (const auto found = by_path.find(std::string(path)); found != by_path.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace

void Attachments::Restore(const std::function<bool(const AttachmentRecord&)>& is_over) {
  const Clock::time_point began = Clock::now();
  std::vector<AttachmentRecord> records = journal_.All();
  for (AttachmentRecord& record : records) {
    if (is_over && IsRestored(record) && is_over(record)) GiveUp(record);
  }
  std::stable_sort(records.begin(), records.end(), GoesBefore);
  std::map<std::string, Key> by_path;
  for (const AttachmentRecord& record : records) {
    if (IsRestored(record) && !record.attach_path.empty()) by_path.emplace(record.attach_path, KeyOf(record));
  }
  std::vector<AttachmentRecord> now;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    restore_began_ = began;
    if (records.empty()) restored_in_ = Clock::now() - began;
    for (const AttachmentRecord& record : records) {
      restoring_.insert(KeyOf(record));
      const std::optional<Key> parent = IsRestored(record) ? ParentIn(by_path, record) : std::nullopt;
      (parent ? children_[*parent] : now).push_back(record);
    }
  }
  for (const AttachmentRecord& record : now) Schedule(record, settings_.first_retry, Clock::duration::zero());
}

// Where it cannot be written down it is restored as ever.
void Attachments::GiveUp(AttachmentRecord& record) {
  AttachmentRecord given_up = record;
  given_up.phase = AttachmentRecord::Phase::kUnmounting;
  if (journal_.Put(given_up, Durability::kOrdered).ok()) record = given_up;
}

void Attachments::WaitUntilRestored(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, until, [this] { return restoring_.empty() || stopping_; });
}

int Attachments::restoring() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(restoring_.size());
}

std::optional<Clock::duration> Attachments::restored_in() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return restored_in_;
}

int Attachments::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(scheduled_.size());
}

// One try to come for a record, however many ask for it. `pause`: before the one after that.
void Attachments::Schedule(const AttachmentRecord& record, Clock::duration pause, Clock::duration delay) {
  const Key key = KeyOf(record);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_ || !scheduled_.insert(key).second) return;
  }
  lanes_.Push(
      record.plugin, [this, key, pause] { Attend(key, pause); }, delay);
}

void Attachments::Attend(const Key& key, Clock::duration pause) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    scheduled_.erase(key);
  }
  const auto hold = Lock(key, Clock::now() + settings_.detach_time);
  std::optional<AttachmentRecord> record = journal_.Find(key.first, key.second);
  const absl::Status status = !record ? absl::OkStatus() : hold.ok() ? AttendGuarded(*record) : hold.status();
  if (!record || !IsToCome(*record, status)) Conclude(key);
  if (status.ok()) return;
  Schedule(*record, std::min(2 * pause, settings_.longest_retry), pause);
}

// Of memory that is short, the next try may find more.
absl::Status Attachments::AttendGuarded(AttachmentRecord& record) {
  try {
    return AttendLocked(record);
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

absl::Status Attachments::AttendLocked(AttachmentRecord& record) {
  const std::string before = record.problem;
  absl::Status status;
  switch (record.phase) {
    case AttachmentRecord::Phase::kIntent:
      record.phase = AttachmentRecord::Phase::kUnmounting;
      status = journal_.Put(record, Durability::kOrdered);
      if (status.ok()) status = Finish(record, kNobody, Clock::now() + settings_.detach_time);
      break;
    case AttachmentRecord::Phase::kUnmounting:
      status = Finish(record, kNobody, Clock::now() + settings_.detach_time);
      break;
    case AttachmentRecord::Phase::kMounted:
      status =
          Annotate(Revive(record, kNobody, Clock::now() + settings_.plugin_wait, Clock::now() + settings_.detach_time),
                   "restore what was attached");
      if (!status.ok()) Note(record, status);
      break;
  }
  const bool is_news = WithoutTries(Message(status)) != WithoutTries(before);
  if (!status.ok() && !absl::IsCancelled(status) && is_news) Tell("waiting", record, status);
  return status;
}

// Restored, or found to be in a state of its own: those that waited for it go on.
void Attachments::Conclude(const Key& key) {
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
  for (const AttachmentRecord& child : children) Schedule(child, settings_.first_retry, Clock::duration::zero());
}

}  // namespace mooring::manager
