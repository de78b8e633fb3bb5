#include "manager/volumes/server_check.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

namespace mooring::manager {
namespace {

constexpr int kNoAnswer = -1;

// Filesystems without a server are not asked, because each query takes a thread.
bool HasServer(const std::string& fs_type) {
  constexpr std::array<std::string_view, 8> kLocal = {"ext4", "xfs",  "btrfs", "tmpfs",
                                                      "ext3", "ext2", "vfat",  "devtmpfs"};
  return std::find(kLocal.begin(), kLocal.end(), fs_type) == kLocal.end();
}

bool IsDeadServer(int error) {
  constexpr std::array<int, 7> kErrors = {ENOTCONN, ESTALE, EIO, ESHUTDOWN, EHOSTDOWN, ECONNABORTED, ENXIO};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

// Returns 0 or errno. Bypasses the kernel's caches.
int StatPastCaches(const std::string& path) {
  struct statx status = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC;
  return ::statx(AT_FDCWD, path.c_str(), kFlags, STATX_BASIC_STATS, &status) == 0 ? 0 : errno;
}

}  // namespace

struct ServerCheck::Queries {
  std::mutex mutex;  // guards all below, and the answers
  std::condition_variable answered;
  std::set<std::string> open;  // paths with a running query: one thread for each
};

ServerCheck::ServerCheck(Clock::duration patience) : patience_(patience), queries_(std::make_shared<Queries>()) {}

void ServerCheck::Check(const std::string& path, PathInfo& info) {
  if (!info.mount || !info.failure.empty() || !HasServer(info.mount->fs_type)) return;
  const int error = Ask(path);
  if (IsDeadServer(error)) info.failure = std::generic_category().message(error);
}

int ServerCheck::Ask(const std::string& path) {
  const auto answer = std::make_shared<std::optional<int>>();
  std::unique_lock<std::mutex> lock(queries_->mutex);
  if (!queries_->open.insert(path).second) return kNoAnswer;  // an earlier query still runs
  const auto look = [queries = queries_, answer, path] {
    const int error = StatPastCaches(path);
    const std::lock_guard<std::mutex> answering(queries->mutex);
    *answer = error;
    queries->open.erase(path);
    queries->answered.notify_all();
  };
  try {
    std::thread(look).detach();
  } catch (const std::system_error&) {  // no thread is left: the next check asks again
    queries_->open.erase(path);
    return kNoAnswer;
  }
  queries_->answered.wait_for(lock, patience_, [&] { return answer->has_value(); });
  return answer->value_or(kNoAnswer);
}

}  // namespace mooring::manager
