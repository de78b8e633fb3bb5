// One operation at a time for each key; different keys never wait for each other.
#ifndef MOORING_PLUGIN_KEYED_LOCK_H_
#define MOORING_PLUGIN_KEYED_LOCK_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace mooring {

class KeyedLocks {
 public:
  using Clock = std::chrono::steady_clock;

  class Hold {
   public:
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    friend class KeyedLocks;
    Hold(KeyedLocks* owner, std::string key) : owner_(owner), key_(std::move(key)) {}
    KeyedLocks* owner_;
    std::string key_;
  };

  // Waits until nobody holds `key`; ABORTED ("an operation is pending", CSI) past `deadline`. `what` names the key in
  // the message. KeyedLocks must outlive what it gave.
  absl::StatusOr<Hold> Acquire(const std::string& key, std::string_view what, Clock::time_point deadline);

 private:
  struct Entry {
    bool held = false;
    int waiters = 0;
    std::condition_variable free;
  };
  void Release(const std::string& key);

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // only of keys that are held or waited for
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_KEYED_LOCK_H_
