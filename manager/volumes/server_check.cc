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

constexpr int kSilent = -1;

// Filesystems without a server, which are most: not asked, since each question takes a thread.
bool HasServer(const std::string& fs_type) {
  constexpr std::array<std::string_view, 8> kLocal = {"ext4", "xfs",  "btrfs", "tmpfs",
                                                      "ext3", "ext2", "vfat",  "devtmpfs"};
  return std::find(kLocal.begin(), kLocal.end(), fs_type) == kLocal.end();
}

bool IsDeath(int error) {
  constexpr std::array<int, 7> kDeaths = {ENOTCONN, ESTALE, EIO, ESHUTDOWN, EHOSTDOWN, ECONNABORTED, ENXIO};
  return std::find(kDeaths.begin(), kDeaths.end(), error) != kDeaths.end();
}

// 0, or the errno; past the kernel's caches.
int LookPastCaches(const std::string& path) {
  struct statx status = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_FORCE_SYNC;
  return ::statx(AT_FDCWD, path.c_str(), kFlags, STATX_BASIC_STATS, &status) == 0 ? 0 : errno;
}

}  // namespace

struct ServerCheck::Questions {
  std::mutex mutex;  // of all below, and of the answers
  std::condition_variable answered;
  std::set<std::string> open;  // paths: one thread each, however often it is asked
};

ServerCheck::ServerCheck(Clock::duration patience) : patience_(patience), questions_(std::make_shared<Questions>()) {}

void ServerCheck::Check(const std::string& path, PathInfo& info) {
  if (!info.mount || !info.failure.empty() || !HasServer(info.mount->fs_type)) return;
  const int error = Ask(path);
  if (IsDeath(error)) info.failure = std::generic_category().message(error);
}

int ServerCheck::Ask(const std::string& path) {
  const auto answer = std::make_shared<std::optional<int>>();
  std::unique_lock<std::mutex> lock(questions_->mutex);
  if (!questions_->open.insert(path).second) return kSilent;  // since it was asked before
  const auto look = [questions = questions_, answer, path] {
    const int error = LookPastCaches(path);
    const std::lock_guard<std::mutex> answering(questions->mutex);
    *answer = error;
    questions->open.erase(path);
    questions->answered.notify_all();
  };
  try {
    std::thread(look).detach();
  } catch (const std::system_error&) {  // no thread left: asked another time
    questions_->open.erase(path);
    return kSilent;
  }
  questions_->answered.wait_for(lock, patience_, [&] { return answer->has_value(); });
  return answer->value_or(kSilent);
}

}  // namespace mooring::manager
