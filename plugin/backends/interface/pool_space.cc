#include "plugin/backends/interface/pool_space.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/exception.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

constexpr std::uint64_t kLeastFreePercent = 5, kLeastFreeBytes = kGiB;  // whichever is less

// Images are sparse. On a full filesystem a write in a volume fails, however empty the volume looks.
std::string ShortageOf(const std::string& directory, std::uint64_t available, std::uint64_t total) {
  if (available >= std::min(total / 100 * kLeastFreePercent, kLeastFreeBytes)) return "";
  return fmt::format(
      "the filesystem of {} is nearly full, with {} MiB of {} MiB left: when it is full, writes to volumes fail; make "
      "room there",
      Quote(directory), available / kMiB, total / kMiB);
}

std::string NoInodesIn(const std::string& directory) {
  return fmt::format("the filesystem of {} has no inode left: remove files there, or choose another (df -i)",
                     Quote(directory));
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{500};

// The directories that threads ask for, with the time when they began.
class Questions {
 public:
  using Started = std::multimap<std::string, Clock::time_point>;

  // Empty: an earlier question has no answer yet.
  std::optional<Started::iterator> Begin(const std::string& directory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [first, last] = started_.equal_range(directory);
    const auto hangs = [](const auto& question) { return Clock::now() - question.second > kPatience; };
    if (std::any_of(first, last, hangs)) return std::nullopt;
    return started_.emplace(directory, Clock::now());
  }
  void End(Started::iterator question) {
    const std::lock_guard<std::mutex> lock(mutex_);
    started_.erase(question);
  }

 private:
  std::mutex mutex_;
  Started started_;
};

Questions& Asked() {
  static auto* const asked = new Questions;  // threads that hang may outlive main()
  return *asked;
}

}  // namespace

absl::StatusOr<BackendCapacity> AskInTime(const std::string& directory,
                                          std::function<absl::StatusOr<BackendCapacity>()> ask) {
  const auto question = Asked().Begin(directory);
  std::future<absl::StatusOr<BackendCapacity>> answer;
  if (question) {
    std::packaged_task<absl::StatusOr<BackendCapacity>()> task([ask = std::move(ask), question = *question] {
      const absl::Cleanup end = [question] { Asked().End(question); };
      return ask();
    });
    answer = task.get_future();
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error& error) {
      Asked().End(*question);
      return ExceptionStatus(error);
    }
    if (answer.wait_for(kPatience) == std::future_status::ready) return answer.get();
  }
  return Unavailable(
      "the filesystem of {} gives no answer: it hangs, or the server or device below it (FUSE, NFS); end or mend that",
      Quote(directory));
}

absl::StatusOr<BackendCapacity> SpaceIn(const std::string& directory) {
  struct statvfs filesystem = {};
  if (::statvfs(directory.c_str(), &filesystem) != 0) return ErrnoStatus(errno, "ask for the space in", directory);
  // Without an inode no volume can be made, however many bytes are left. btrfs counts no inodes.
  const bool out_of_inodes = filesystem.f_files != 0 && filesystem.f_favail == 0;
  const std::uint64_t available = out_of_inodes ? 0 : std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
  const std::uint64_t usable = available - available % kVolumeGranularity;
  const std::uint64_t total = std::uint64_t{filesystem.f_blocks} * filesystem.f_frsize;
  return BackendCapacity{.total = total,
                         .available = available,
                         .largest_volume = std::min(usable, kLargestVolumeBytes),
                         .shortage = out_of_inodes ? NoInodesIn(directory) : ShortageOf(directory, available, total)};
}

absl::Status CheckSpaceIn(const std::string& directory, std::uint64_t more_bytes) {
  MOORING_ASSIGN_OR_RETURN(const BackendCapacity capacity, SpaceIn(directory));
  if (more_bytes <= capacity.available) return absl::OkStatus();
  if (capacity.available == 0 && !capacity.shortage.empty()) return OutOfRange(capacity.shortage);
  return OutOfRange("{} are needed, and the filesystem of {} has {} left: ask for less, or make room there",
                    SizeText(more_bytes), Quote(directory), SizeText(capacity.available));
}

}  // namespace mooring
