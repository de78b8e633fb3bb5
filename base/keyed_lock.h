// Locks by key: one operation at a time for each key. Different keys never wait for each other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

class KeyedLocks {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Among { kAll, kThisHost };  // kThisHost leaves out the files of AddFile

  // The server of a file, which may be away.
  struct Server {
    std::function<absl::Status()> answers = {};  // none: always
    std::function<void()> lock_left = [] {};     // there is work for EndLeftLocks
  };

 private:
  struct KeyFile {
    UniqueFd fd;
    std::string path;
    std::function<bool(const std::string& key)> owns = {};
    Server server = {};
    std::unique_ptr<std::mutex> opening = std::make_unique<std::mutex>();
  };

 public:
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
    std::vector<const KeyFile*> files_;  // that have the key locked, in this order
  };

  KeyedLocks() = default;  // locks within this process only

  // Locks among all processes that use this file, which is created (0600) if missing. A process that ends releases its
  // locks.
  static absl::StatusOr<std::unique_ptr<KeyedLocks>> Shared(const std::string& path);

  // Locks the keys that `owns` selects in another file, too, which may lie on a filesystem of several hosts. The locks
  // hold between them then. Call it before the first Acquire. With `answers`, the file is opened by the first Acquire
  // for which it is OK, and not touched while it is an error.
  absl::Status AddFile(const std::string& path, std::function<bool(const std::string& key)> owns, Server server);
  absl::Status AddFile(const std::string& path, std::function<bool(const std::string& key)> owns) {
    return AddFile(path, std::move(owns), Server());
  }

  // Opens that file anew if another one has its path by now: its directory was mounted anew. Locks in the old one end.
  absl::Status ReopenFile(const std::string& path);

  // Waits until `key` is free. ABORTED ("an operation is pending", CSI 1.12) after `deadline`; after Stop, the error
  // given to Stop. While the file of the key does not answer, the error of AddFile's `answers`. `what` says in the
  // message what the key is. KeyedLocks must outlive every Hold.
  absl::StatusOr<Hold> Acquire(const std::string& key, std::string_view what, Clock::time_point deadline,
                               Among among = Among::kAll);

  // A file of AddFile may not answer when a lock in it begins or ends. Other hosts may see that lock from then on. This
  // takes such locks of the keys that `owns` selects again, and ends them. Call it when the file answers again, until
  // it is OK.
  absl::Status EndLeftLocks(const std::function<bool(const std::string& key)>& owns);

  // Ends all waiting, now and later, with the error `why`.
  void Stop(const absl::Status& why = absl::UnavailableError("this process is stopping: call again when it is back"));

 private:
  struct Entry {
    bool held = false;
    int waiters = 0;
    std::condition_variable free;
  };
  absl::StatusOr<std::vector<const KeyFile*>> FilesOf(const std::string& key, Among among);
  absl::Status WaitInProcess(const std::string& key, std::string_view what, Clock::time_point deadline);
  absl::Status WaitForProcesses(const KeyFile& file, const std::string& key, std::string_view what,
                                Clock::time_point deadline);
  void Leave(const KeyFile& file, const std::string& key);
  absl::Status EndLeftLock(const std::string& key);
  void Release(const std::string& key, const std::vector<const KeyFile*>& files);
  absl::Status stopped();

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // keys that are held or waited for
  std::set<std::string> left_;            // keys for EndLeftLocks
  absl::Status stopped_;                  // the error given to Stop; OK before
  KeyFile file_;                          // not open: locks within this process only
  std::vector<KeyFile> files_;            // of AddFile
};

}  // namespace mooring
