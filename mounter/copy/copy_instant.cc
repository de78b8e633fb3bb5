#include "mounter/copy/copy_instant.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/copy/copy_data.h"
#include "mounter/copy/freeze.h"
#include "mounter/loop/loop_device.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;
using Jobs = std::vector<CopyJob>;

constexpr int kMostPasses = 6;      // before the freeze
constexpr int kMostFreezes = 3;     // of one copy
constexpr int kLeastAttempts = 10;  // to meet block devices in a pause
constexpr std::chrono::milliseconds kQuickPass{300};
constexpr std::chrono::milliseconds kBetweenAttempts{50};
constexpr std::chrono::seconds kAwaitPause{15};
constexpr Clock::time_point kNoDeadline = Clock::time_point::max();

constexpr char kWayOut[] = "or keep volumes in a pool on xfs or btrfs, which share extents";

// The kernel's statistics of a block device tell whether it was written to between two moments.
struct WriteCounters {
  std::uint64_t in_flight = 0;                  // writes and discards under way
  std::array<std::uint64_t, 6> completed = {};  // requests, merged requests, sectors: of writes, then of discards
};

absl::StatusOr<std::vector<std::uint64_t>> NumbersIn(const std::string& path, std::size_t least) {
  std::ifstream file(path);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; file >> number;) numbers.push_back(number);
  if (numbers.size() >= least) return numbers;
  return FailedPrecondition("{} has no statistics of the device", path);
}

// `device` is its name in /sys/block. FAILED_PRECONDITION: the statistics are switched off.
//
// The writes under way are read first: a write that ends between the two reads is counted, and one that begins between
// them came later.
absl::StatusOr<WriteCounters> ReadWriteCounters(const std::string& device) {
  const std::string directory = "/sys/block/" + device;
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> kept, NumbersIn(directory + "/queue/iostats", 1));
  if (kept[0] == 0) {
    return FailedPrecondition("the statistics of {} are switched off: write 1 to {}/queue/iostats", device, directory);
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> in_flight, NumbersIn(directory + "/inflight", 2));
  constexpr std::size_t kFields = 14;  // Documentation/block/stat.rst, with discards: Linux 4.18
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> stat, NumbersIn(directory + "/stat", kFields));
  return WriteCounters{in_flight[1], {stat[4], stat[5], stat[6], stat[11], stat[12], stat[13]}};
}

bool NothingWritten(const WriteCounters& before, const WriteCounters& after) {
  return after.in_flight == 0 && before.completed == after.completed;
}

using Counters = std::map<std::string, WriteCounters>;

template <typename Condition>
std::size_t Count(const Jobs& jobs, const Condition& condition) {
  return static_cast<std::size_t>(std::count_if(jobs.begin(), jobs.end(), condition));
}

bool AnyMounted(const Jobs& jobs) {
  return Count(jobs, [](const CopyJob& job) { return job.mounted(); }) > 0;
}

// Writers wait while a writable filesystem is frozen.
bool AnyMountedWritable(const Jobs& jobs) {
  const auto writable = [](const std::unique_ptr<Superblock>& filesystem) { return !filesystem->read_only(); };
  return Count(jobs, [&](const CopyJob& job) {
           return std::any_of(job.use.filesystems.begin(), job.use.filesystems.end(), writable);
         }) > 0;
}

// Sharing takes a single device at one instant. Several devices need a common pause in the writes, and so does a device
// whose data is copied.
bool MustPause(const Jobs& jobs) {
  const std::size_t written = Count(jobs, [](const CopyJob& job) { return job.written(); });
  return written > 1 || Count(jobs, [](const CopyJob& job) { return job.written() && !job.shares; }) > 0;
}

bool IsCopied(const CopyJob& job) { return !job.idle() && !job.shares; }

absl::StatusOr<bool> Share(const CopyJob& job) { return ShareData(job.source.fd, job.file->fd(), job.source.path); }

absl::StatusOr<std::uint64_t> CopyChangesOf(const CopyJob& job, Clock::time_point deadline) {
  return CopyChanges(job.source.fd, job.file->fd(), job.source.status.st_size, job.source.path, deadline);
}

absl::Status SyncDevices(const Jobs& jobs) {
  for (const CopyJob& job : jobs) {
    for (const UniqueFd& device : job.use.written) {
      MOORING_RETURN_IF_ERROR(FlushDevice(device.get(), job.source.path));
    }
  }
  return absl::OkStatus();
}

// Writes dirty data to disk, because the freeze would have to wait for it.
absl::Status SyncAll(const Jobs& jobs) {
  for (const CopyJob& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) MOORING_RETURN_IF_ERROR(filesystem->Sync());
  }
  return SyncDevices(jobs);
}

// Finds out which images can share their data, and copies the others while they are in use. These copies are not of one
// instant yet.
absl::Status CopyInUse(Jobs& jobs) {
  for (CopyJob& job : jobs) {
    if (job.idle()) continue;
    MOORING_ASSIGN_OR_RETURN(job.shares, Share(job));
    if (job.shares) continue;
    MOORING_RETURN_IF_ERROR(CheckRoom(job));
    MOORING_RETURN_IF_ERROR(CopyExtents(job.source.fd, job.file->fd(), job.source.status.st_size, job.source.path));
  }
  return absl::OkStatus();
}

struct Pass {
  std::uint64_t changed = 0;
  Clock::duration took = {};
};

absl::StatusOr<Pass> CopyChangesOfAll(const Jobs& jobs) {
  const auto start = Clock::now();
  Pass pass;
  for (const CopyJob& job : jobs) {
    if (!IsCopied(job)) continue;
    MOORING_ASSIGN_OR_RETURN(const std::uint64_t changed, CopyChangesOf(job, kNoDeadline));
    pass.changed += changed;
  }
  pass.took = Clock::now() - start;
  return pass;
}

std::string Names(const Jobs& jobs) {
  std::string names;
  for (const CopyJob& job : jobs) {
    if (!IsCopied(job)) continue;
    names += (names.empty() ? "" : ", ") + Quote(job.source.path);
  }
  return names;
}

// The freeze lasts while all data of the source and of the copy is read once more.
absl::Status HoldsTooMuch(const Jobs& jobs) {
  return FailedPrecondition(
      "{} holds too much data to be copied while it is mounted: its filesystem would stand still for more than {} s; "
      "unpublish and unstage the volume, {}",
      Names(jobs), kLongestFreeze.count(), kWayOut);
}

absl::Status IsWrittenTooFast(const Jobs& jobs) {
  return FailedPrecondition(
      "{} is written too fast to be copied while it is mounted: its filesystem would stand still for more than {} s; "
      "write less meanwhile, unpublish and unstage the volume, {}",
      Names(jobs), kLongestFreeze.count(), kWayOut);
}

// Copies the changes of images in use, until the next pass would not be shorter. The pass during the freeze takes as
// long as the last of these.
absl::Status Approach(const Jobs& jobs) {
  if (Count(jobs, IsCopied) == 0 || !AnyMounted(jobs)) return absl::OkStatus();
  Pass last;
  for (int number = 0; number < kMostPasses; ++number) {
    MOORING_RETURN_IF_ERROR(SyncAll(jobs));
    const std::uint64_t before = last.changed;
    MOORING_ASSIGN_OR_RETURN(last, CopyChangesOfAll(jobs));
    if (last.took <= kQuickPass || (number > 0 && last.changed >= before / 2)) break;
  }
  return last.took <= kLongestFreeze ? absl::OkStatus() : HoldsTooMuch(jobs);
}

absl::Status FreezeAll(const Jobs& jobs) {
  for (const CopyJob& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) MOORING_RETURN_IF_ERROR(filesystem->Freeze());
  }
  return absl::OkStatus();
}

absl::Status ThawAll(const Jobs& jobs) {
  absl::Status thawed;
  for (const CopyJob& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) {
      if (filesystem->frozen()) thawed.Update(filesystem->Thaw());
    }
  }
  return thawed;
}

absl::StatusOr<std::unique_ptr<ThawGuard>> GuardAll(const Jobs& jobs) {
  std::vector<int> roots, retry_limits;
  for (const CopyJob& job : jobs) {
    for (const auto& filesystem : job.use.filesystems) {
      roots.push_back(filesystem->root());
      for (const UniqueFd& limit : filesystem->retry_limits()) retry_limits.push_back(limit.get());
    }
  }
  if (roots.empty()) return std::unique_ptr<ThawGuard>();
  return ThawGuard::Start(roots, retry_limits, kGuardedFreeze);
}

// Only block devices have counters to watch: mounted filesystems are frozen.
absl::StatusOr<Counters> CountersOf(const Jobs& jobs) {
  Counters counters;
  for (const CopyJob& job : jobs) {
    if (!job.written()) continue;
    for (const std::string& device : job.use.writers) {
      MOORING_ASSIGN_OR_RETURN(counters[device], ReadWriteCounters(device));
    }
  }
  return counters;
}

absl::StatusOr<bool> AnyWrittenSince(const Counters& before) {
  for (const auto& [device, counters] : before) {
    MOORING_ASSIGN_OR_RETURN(const WriteCounters now, ReadWriteCounters(device));
    if (!NothingWritten(counters, now)) return true;
  }
  return false;
}

absl::Status CopyOne(const CopyJob& job, Clock::time_point deadline) {
  if (!job.shares) return CopyChangesOf(job, deadline).status();
  MOORING_ASSIGN_OR_RETURN(const bool shared, Share(job));
  return shared ? absl::OkStatus() : Internal("{} could be shared before", Quote(job.source.path));
}

// `written` selects the block devices, which are copied first, while all filesystems are frozen.
absl::Status CopyEach(const Jobs& jobs, bool written, Clock::time_point deadline) {
  for (const CopyJob& job : jobs) {
    if (!job.idle() && job.written() == written) MOORING_RETURN_IF_ERROR(CopyOne(job, deadline));
  }
  return absl::OkStatus();
}

// False: a block device was written to during the copy.
absl::StatusOr<bool> CopyFrozen(const Jobs& jobs, bool must_pause, Clock::time_point deadline) {
  Counters before;
  if (must_pause) {
    MOORING_RETURN_IF_ERROR(SyncDevices(jobs));
    MOORING_ASSIGN_OR_RETURN(before, CountersOf(jobs));
  }
  MOORING_RETURN_IF_ERROR(CopyEach(jobs, true, deadline));
  MOORING_RETURN_IF_ERROR(CopyEach(jobs, false, deadline));
  MOORING_ASSIGN_OR_RETURN(const bool moved, AnyWrittenSince(before));
  return !moved;
}

// A single attempt. Every return thaws all filesystems. DEADLINE_EXCEEDED: the freeze would have been too long.
absl::StatusOr<bool> FreezeAndCopy(const Jobs& jobs) {
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<ThawGuard> guard, GuardAll(jobs));
  const absl::Cleanup thaw = [&jobs] { ThawAll(jobs).IgnoreError(); };
  const Clock::time_point deadline = AnyMounted(jobs) ? Clock::now() + kLongestFreeze : kNoDeadline;
  MOORING_RETURN_IF_ERROR(FreezeAll(jobs));
  const absl::StatusOr<bool> copied = CopyFrozen(jobs, MustPause(jobs), deadline);
  const absl::Status thawed = ThawAll(jobs);
  const bool late = absl::IsDeadlineExceeded(copied.status());
  if (!thawed.ok() && !(late && absl::IsAborted(thawed))) return thawed;
  return copied;
}

absl::Status NeverPauses(const Jobs& jobs, int attempts) {
  const std::size_t devices = Count(jobs, [](const CopyJob& job) { return job.written(); });
  std::string names;
  for (const CopyJob& job : jobs) {
    if (job.written()) names += (names.empty() ? "" : ", ") + Quote(job.source.path);
  }
  return FailedPrecondition(
      "{} {} in use as a block device and written to without a pause: each of {} copies met writes, so none is of one "
      "instant; pause the writer, unpublish and unstage the volume{}",
      names, devices > 1 ? "are each" : "is", attempts,
      devices > 1 ? ", or copy the volumes one by one" : std::string(", ") + kWayOut);
}

}  // namespace

absl::Status CheckRoom(const CopyJob& job) {
  struct statvfs pool = {};
  if (::fstatvfs(job.file->fd().get(), &pool) != 0) return ErrnoStatus(errno, "ask for the space of", job.file->path());
  const std::uint64_t available = std::uint64_t{pool.f_bavail} * pool.f_frsize;
  const std::uint64_t needed = static_cast<std::uint64_t>(job.source.status.st_blocks) * 512;
  if (needed <= available) return absl::OkStatus();
  return ResourceExhausted("a copy of {} takes {} bytes, and the filesystem of {} has {} left: make room there",
                           Quote(job.source.path), needed, Quote(job.file->path()), available);
}

absl::Status CopyAtOneInstant(Jobs& jobs) {
  if (Count(jobs, [](const CopyJob& job) { return !job.idle(); }) == 0) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(SyncAll(jobs));
  MOORING_RETURN_IF_ERROR(CopyInUse(jobs));
  const auto start = Clock::now();
  int freezes = 0;
  for (int attempt = 1;; ++attempt) {
    MOORING_RETURN_IF_ERROR(Approach(jobs));
    MOORING_RETURN_IF_ERROR(SyncAll(jobs));
    const absl::StatusOr<bool> copied = FreezeAndCopy(jobs);
    if (copied.ok() && *copied) return absl::OkStatus();
    const bool late = absl::IsDeadlineExceeded(copied.status());
    if (!copied.ok() && !late) return copied.status();
    // Each attempt makes the writers of mounted filesystems wait, so their number is limited.
    if ((late || AnyMountedWritable(jobs)) && ++freezes == kMostFreezes) {
      return late ? IsWrittenTooFast(jobs) : NeverPauses(jobs, attempt);
    }
    if (attempt >= kLeastAttempts && Clock::now() - start > kAwaitPause) return NeverPauses(jobs, attempt);
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace mooring
