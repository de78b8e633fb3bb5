#include "mounter/copy/freeze.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string_view>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/pipe.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/loop/loop_device.h"
#include "mounter/loop/loop_mounted.h"
#include "mounter/loop/settle.h"
#include "mounter/path/mapping_names.h"
#include "mounter/process/side_process.h"
#include "mounter/superblock/superblock_guard.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

// The filesystems that this process has frozen, or is freezing, to be thawed when it ends.
class FrozenFilesystems {
 public:
  static FrozenFilesystems& Of() {
    static FrozenFilesystems* const only = new FrozenFilesystems;  // threads that hang outlive main
    return *only;
  }
  bool Begin(int root) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) frozen_[root] = false;
    return !closed_;
  }
  bool MarkFrozen(int root) {  // false: the process ends, and the caller has to thaw at once
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) frozen_[root] = true;
    return !closed_;
  }
  void End(int root) {
    const std::lock_guard<std::mutex> lock(mutex_);
    frozen_.erase(root);
    changed_.notify_all();
  }
  void ThawAll() {
    constexpr std::chrono::seconds kPatience{5};  // a freeze under way writes dirty data first
    std::unique_lock<std::mutex> lock(mutex_);
    closed_ = true;
    for (const auto& [root, frozen] : frozen_) {
      if (frozen) ::ioctl(root, FITHAW, 0);
    }
    changed_.wait_for(lock, kPatience, [this] {
      return std::all_of(frozen_.begin(), frozen_.end(), [](const auto& entry) { return entry.second; });
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, bool> frozen_;  // by the open root directory; false: the freeze is under way
  bool closed_ = false;
};

absl::StatusOr<std::string> MountedType(const LoopInfo& loop) {
  return mooring::MountedType(std::string(NameOf(loop.device)));
}

// The mapping of an encrypted volume is in the stack as if it were a loop device over the one below it.
bool IsMapping(const LoopInfo& device) { return NameOf(device.device).starts_with("dm-"); }

bool IsNamedAsMapping(const std::string& device) {
  return FirstLine(fmt::format("/sys/class/block/{}/dm/name", device)).starts_with(kMappingPrefix);
}

absl::StatusOr<std::vector<LoopInfo>> MappingsOn(const LoopInfo& loop) {
  const std::string holders = fmt::format("/sys/class/block/{}/holders", NameOf(loop.device));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(holders));
  std::vector<LoopInfo> mappings;
  for (const std::string& name : names) {
    const std::optional<dev_t> number = BlockDeviceNumber(name);
    if (!number || !IsNamedAsMapping(name)) continue;  // it is going, or another's
    LoopInfo mapping;
    mapping.device = "/dev/" + name;
    mapping.device_number = *number;
    mapping.backing_rdev = loop.device_number;
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

// Lower devices come before those that are stacked on them.
absl::StatusOr<std::vector<LoopInfo>> StackOver(const struct stat& file, const std::vector<LoopInfo>& all) {
  std::vector<LoopInfo> stack;
  for (const LoopInfo& loop : all) {
    if (IsOver(loop, file)) stack.push_back(loop);
  }
  for (std::size_t lower = 0; lower < stack.size(); ++lower) {
    const dev_t device = stack[lower].device_number;
    for (const LoopInfo& upper : all) {
      if (upper.backing_rdev == device) stack.push_back(upper);
    }
    MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> mappings, MappingsOn(stack[lower]));
    stack.insert(stack.end(), mappings.begin(), mappings.end());
  }
  return stack;
}

// Not open: it is gone, or another's.
absl::StatusOr<UniqueFd> OpenInStack(const LoopInfo& device) {
  if (!IsMapping(device)) return OpenAsFound(device);
  UniqueFd fd(::open(device.device.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  const bool is_same = fd.ok() && ::fstat(fd.get(), &status) == 0 && status.st_rdev == device.device_number &&
                       IsNamedAsMapping(std::string(NameOf(device.device)));
  return is_same ? std::move(fd) : UniqueFd();
}

absl::StatusOr<std::vector<LoopInfo>> StackOver(const LockedImage& image) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, ListLoops());
  MOORING_RETURN_IF_ERROR(CheckNoneHangs(loops, image.path));
  MOORING_ASSIGN_OR_RETURN(std::vector<LoopInfo> stack, StackOver(image.status, loops));
  MOORING_RETURN_IF_ERROR(AskWhetherMounted(stack));
  return stack;
}

// An unmounted device with autoclear goes. The last writes of its filesystem are in the file by then.
absl::StatusOr<std::vector<LoopInfo>> SettledStackOver(const LockedImage& image) {
  const auto is_going = [](const LoopInfo& loop) { return loop.is_going(); };
  return AskUntilSettled([&image] { return StackOver(image); },
                         [&](const auto& stack) { return std::any_of(stack.begin(), stack.end(), is_going); });
}

// Documentation/admin-guide/xfs.rst, "Error handling". The directory exists while the filesystem is mounted.
std::vector<UniqueFd> OpenRetryLimits(const std::string& device) {
  std::vector<UniqueFd> limits;
  for (const char* error : {"EIO", "ENOSPC", "default"}) {
    const std::string path = fmt::format("/sys/fs/xfs/{}/error/metadata/{}/max_retries", device, error);
    UniqueFd limit(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (limit.ok()) limits.push_back(std::move(limit));
  }
  return limits;
}

constexpr int kReadyPatience = 10000;  // milliseconds
constexpr int kThawAgain = 20;         // milliseconds

// True: the other process has ended. It never sends data.
bool HasEnded(int life, int milliseconds) {
  pollfd waited = {life, POLLIN, 0};
  const int events = ::poll(&waited, 1, milliseconds);
  return events > 0;
}

void ThawEach(const std::vector<int>& roots) {
  for (const int root : roots) ::ioctl(root, FITHAW, 0);  // EINVAL where it is not frozen
}

// An xfs that cannot write its metadata repeats that for ever, its freeze waits for it, and a thaw for the freeze. With
// a limit it shuts down, and the freeze ends. A filesystem whose writes succeed does not notice.
constexpr std::string_view kFewRetries = "3\n";

using Limits = std::vector<ThawGuard::RetryLimit>;

ThawGuard::RetryLimit ReadLimit(int file) {
  ThawGuard::RetryLimit limit{.file = file, .text = {}, .size = 0};
  const ssize_t got = ::pread(file, limit.text.data(), limit.text.size(), 0);
  limit.size = got > 0 ? static_cast<std::size_t>(got) : 0;
  return limit;
}

std::string_view TextOf(const ThawGuard::RetryLimit& limit) { return {limit.text.data(), limit.size}; }

void Write(int file, std::string_view text) {
  const ssize_t done = ::pwrite(file, text.data(), text.size(), 0);
  static_cast<void>(done);  // after the unmount the file is gone
}

void LimitRetries(const Limits& before) {
  for (const ThawGuard::RetryLimit& limit : before) {
    if (limit.size > 0) Write(limit.file, kFewRetries);
  }
}

// A limit that somebody else has set meanwhile stays.
void RestoreLimits(const Limits& before) {
  for (const ThawGuard::RetryLimit& limit : before) {
    if (limit.size > 0 && TextOf(ReadLimit(limit.file)) == kFewRetries) Write(limit.file, TextOf(limit));
  }
}

// Past the bound a freeze may still be under way. It can be thawed only when it is complete, so the guard repeats the
// thaw.
int Guard(const std::vector<int>& roots, const Limits& limits, int ready, int life, int bound) {
  if (::write(ready, "r", 1) != 1) return 1;
  bool ended = HasEnded(life, bound);
  if (!ended) LimitRetries(limits);
  ThawEach(roots);
  while (!ended) {
    ended = HasEnded(life, kThawAgain);
    ThawEach(roots);
  }
  RestoreLimits(limits);
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Superblock>> Superblock::Open(const LoopInfo& loop, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(UniqueFd fd, OpenInStack(loop));
  if (!fd.ok()) return Aborted("{} was detached at this moment: call again", loop.device);
  std::unique_ptr<Superblock> superblock(new Superblock(loop.device, std::move(fd)));
  MOORING_RETURN_IF_ERROR(superblock->OpenRootOf(fs_type));
  return superblock;
}

// A mount of the same device gives the same superblock and keeps its options. Only read-only has to be as it is. A
// filesystem that was unmounted a moment ago is mounted here once more, which does no harm.
absl::Status Superblock::OpenRootOf(const std::string& fs_type) {
  // Another mount of a live superblock reads nothing from the device. A refusal would only prevent its thaw.
  MOORING_ASSIGN_OR_RETURN(const std::string mounted, mooring::MountedType(std::string(NameOf(device_))));
  if (mounted.empty()) MOORING_RETURN_IF_ERROR(CheckSuperblock(loop_.get(), device_, fs_type));
  MountRequest request;
  request.source = device_;
  request.fs_type = fs_type;
  if (fs_type == "xfs") request.options = {{"nouuid", std::nullopt}};
  const auto open = [&]() -> absl::Status {
    MOORING_ASSIGN_OR_RETURN(NewMount mount, MakeHiddenMount(request, device_));
    mount_.emplace(std::move(mount));
    MOORING_ASSIGN_OR_RETURN(root_, mount_->OpenRoot());
    return absl::OkStatus();
  };
  if (const absl::Status writable = open(); !writable.ok()) {
    request.options.push_back({"ro", std::nullopt});
    read_only_ = open().ok();
    if (!read_only_) return writable;
  }
  if (fs_type == "xfs") retry_limits_ = OpenRetryLimits(std::string(NameOf(device_)));
  return absl::OkStatus();
}

Superblock::~Superblock() {
  if (frozen_) Thaw().IgnoreError();
  if (frozen_) FrozenFilesystems::Of().End(root_.get());  // another file will get the number of the descriptor
}

absl::Status Superblock::Sync() const {
  return ::syncfs(root_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "sync the filesystem on", device_);
}

absl::StatusOr<dev_t> Superblock::DeviceOfFiles() const {
  struct stat status = {};
  if (::fstat(root_.get(), &status) != 0) return ErrnoStatus(errno, "look at the filesystem on", device_);
  return status.st_dev;
}

absl::Status Superblock::Freeze() {
  FrozenFilesystems& all = FrozenFilesystems::Of();
  if (!all.Begin(root_.get())) return Unavailable("this process is ending: nothing is frozen any more");
  if (::ioctl(root_.get(), FIFREEZE, 0) != 0) {
    const int error = errno;
    all.End(root_.get());
    const absl::Status status = ErrnoStatus(error, "freeze the filesystem on", device_);
    if (error == EIO) {
      return Internal(Message(status) +
                      ": what it lies on fails writes, and it may have been shut down; repair that, then unpublish and "
                      "unstage the volume: the next stage checks it");
    }
    if (error != EBUSY) return status;
    return FailedPrecondition(Message(status) +
                              ": it is frozen already, by another process or by a copy that was killed; thaw it with "
                              "fsfreeze -u where it is mounted");
  }
  frozen_ = true;
  if (all.MarkFrozen(root_.get())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(Thaw());
  return Unavailable("this process is ending: nothing is frozen any more");
}

absl::Status Superblock::Thaw() {
  const int error = ::ioctl(root_.get(), FITHAW, 0) == 0 ? 0 : errno;
  frozen_ = error != 0 && error != EINVAL;  // then the destructor tries once more
  if (frozen_) return WithCode(absl::StatusCode::kUnavailable, ErrnoStatus(error, "thaw the filesystem on", device_));
  FrozenFilesystems::Of().End(root_.get());
  if (error == 0) return absl::OkStatus();
  return Aborted("the filesystem on {} was thawed by another process while it was copied: call again", device_);
}

absl::Status Superblock::ThawFully() {
  while (::ioctl(root_.get(), FITHAW, 0) == 0) {
  }
  return errno == EINVAL ? absl::OkStatus() : ErrnoStatus(errno, "thaw the filesystem on", device_);
}

absl::StatusOr<ImageUse> FindUse(const LockedImage& image) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> stack, SettledStackOver(image));
  ImageUse use;
  std::set<dev_t> carriers;  // a filesystem mounted writable above is the only writer of these
  for (auto loop = stack.rbegin(); loop != stack.rend(); ++loop) {
    MOORING_ASSIGN_OR_RETURN(const std::string type, MountedType(*loop));
    const bool carries = carriers.count(loop->device_number) != 0;
    if (IsOver(*loop, image.status) && !loop->read_only) use.writers.insert(std::string(NameOf(loop->device)));
    bool writes = false;
    if (!type.empty()) {
      MOORING_ASSIGN_OR_RETURN(std::unique_ptr<Superblock> superblock, Superblock::Open(*loop, type));
      writes = !loop->read_only && !superblock->read_only();
      use.filesystems.push_back(std::move(superblock));
    }
    if (writes || carries) carriers.insert(loop->backing_rdev);
    // Beside a read-only mount, a process that has the device open may write to it.
    if (!writes && !carries && !loop->read_only) {
      MOORING_ASSIGN_OR_RETURN(UniqueFd fd, OpenInStack(*loop));
      if (fd.ok()) use.written.push_back(std::move(fd));
    }
  }
  return use;
}

void ThawAllForGood() { FrozenFilesystems::Of().ThawAll(); }

absl::StatusOr<std::unique_ptr<ThawGuard>> ThawGuard::Start(const std::vector<int>& roots,
                                                            const std::vector<int>& retry_limits,
                                                            std::chrono::milliseconds bound) {
  Limits limits;
  for (const int file : retry_limits) limits.push_back(ReadLimit(file));
  MOORING_ASSIGN_OR_RETURN(Pipe ready, MakePipe());
  MOORING_ASSIGN_OR_RETURN(Pipe life, MakePipe());
  SideProcessSpec spec = {.name = "mooring-thaw", .kept = roots, .keeps_sys_admin = true};
  spec.kept.insert(spec.kept.end(), retry_limits.begin(), retry_limits.end());
  spec.kept.insert(spec.kept.end(), {ready.writer.get(), life.reader.get()});
  const auto limit = static_cast<int>(bound.count());
  MOORING_ASSIGN_OR_RETURN(const pid_t pid, StartSideProcess(spec, [&] {
                             return Guard(roots, limits, ready.writer.get(), life.reader.get(), limit);
                           }));
  std::unique_ptr<ThawGuard> guard(new ThawGuard(pid, std::move(life.writer), std::move(limits)));
  ready.writer.reset();
  pollfd waited = {ready.reader.get(), POLLIN, 0};
  char said = 0;
  if (::poll(&waited, 1, kReadyPatience) == 1 && ::read(ready.reader.get(), &said, 1) == 1) return guard;
  return Internal("the process that would thaw after a crash did not start: nothing is frozen without it; call again");
}

ThawGuard::~ThawGuard() {
  EndSideProcess(pid_);
  RestoreLimits(limits_);
}

}  // namespace mooring
