#include "plugin/keyed_lock.h"

#include <fmt/format.h>

#include <utility>

#include "base/quote.h"
#include "base/status.h"

namespace mooring {

KeyedLocks::Hold::Hold(Hold&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), key_(std::move(other.key_)) {}

KeyedLocks::Hold::~Hold() {
  if (owner_ != nullptr) owner_->Release(key_);
}

absl::StatusOr<KeyedLocks::Hold> KeyedLocks::Acquire(const std::string& key, std::string_view what,
                                                     Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  Entry& entry = entries_[key];
  ++entry.waiters;
  const bool free = entry.free.wait_until(lock, deadline, [&entry] { return !entry.held; });
  --entry.waiters;
  if (!free) {
    return Aborted(fmt::format("another operation on {} {} is still under way: call again later", what, Quote(key)));
  }
  entry.held = true;
  return Hold(this, key);
}

void KeyedLocks::Release(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  found->second.held = false;
  if (found->second.waiters == 0) {
    entries_.erase(found);
  } else {
    found->second.free.notify_one();
  }
}

}  // namespace mooring
