// One operation at a time for each key; different keys never wait for each other.
#ifndef MOORING_BASE_KEYED_LOCK_H_
#define MOORING_BASE_KEYED_LOCK_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

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

  KeyedLocks() = default;  // of this process alone

  // Of all processes that use this file, which is made (0600) where it is missing. A process that ends holds nothing.
  static absl::StatusOr<std::unique_ptr<KeyedLocks>> Shared(const std::string& path);

  // Waits until nobody holds `key`; ABORTED ("an operation is pending", CSI) past `deadline`; after Stop what that
  // gave. `what` names the key in the message. KeyedLocks must outlive what it gave.
  absl::StatusOr<Hold> Acquire(const std::string& key, std::string_view what, Clock::time_point deadline);

  // Ends all waiting, now and later.
  void Stop(const absl::Status& why = absl::UnavailableError("this process is stopping: call again when it is back"));

 private:
  struct Entry {
    bool held = false;
    int waiters = 0;
    std::condition_variable free;
  };
  absl::Status WaitInProcess(const std::string& key, std::string_view what, Clock::time_point deadline);
  absl::Status WaitForProcesses(const std::string& key, std::string_view what, Clock::time_point deadline);
  void Release(const std::string& key);
  absl::Status stopped();

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // only of keys that are held or waited for
  absl::Status stopped_;                  // OK: it goes on
  UniqueFd file_;                         // none: of this process alone
};

}  // namespace mooring

#endif  // MOORING_BASE_KEYED_LOCK_H_
