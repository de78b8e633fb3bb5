#include "base/keyed_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

// A key stands for one byte of the file, which may lie beyond its end. Two keys with the same byte only wait for each
// other.
off_t ByteOf(const std::string& key) { return static_cast<off_t>(HashOf(key) >> 2U); }

// An open file description lock, fcntl_locking(2): unlike a POSIX lock, it survives when the process closes another
// descriptor of the file.
int SetLock(const UniqueFd& file, const std::string& key, short type) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = ByteOf(key);
  range.l_len = 1;
  return ::fcntl(file.get(), F_OFD_SETLK, &range);
}

absl::StatusOr<UniqueFd> OpenLockFile(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok()) return ErrnoStatus(errno, "open the lock file", path);
  return file;
}

// A copy with its own representation: the thread sanitizer does not see the reference counts of a shared one.
absl::Status Copied(const absl::Status& status) { return absl::Status(status.code(), Message(status)); }

absl::Status Pending(std::string_view what, const std::string& key) {
  return Aborted("another operation on {} {} is still under way: call again later", what, Quote(key));
}

}  // namespace

KeyedLocks::Hold::Hold(Hold&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), key_(std::move(other.key_)), files_(std::move(other.files_)) {}

KeyedLocks::Hold::~Hold() {
  if (owner_ != nullptr) owner_->Release(key_, files_);
}

absl::StatusOr<std::unique_ptr<KeyedLocks>> KeyedLocks::Shared(const std::string& path) {
  auto locks = std::make_unique<KeyedLocks>();
  MOORING_ASSIGN_OR_RETURN(locks->file_.fd, OpenLockFile(path));
  locks->file_.path = path;
  return locks;
}

absl::Status KeyedLocks::AddFile(const std::string& path, std::function<bool(const std::string& key)> owns,
                                 Server server) {
  KeyFile file = {.fd = UniqueFd(), .path = path, .owns = std::move(owns), .server = std::move(server)};
  if (!file.server.answers) {
    MOORING_ASSIGN_OR_RETURN(file.fd, OpenLockFile(path));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status KeyedLocks::ReopenFile(const std::string& path) {
  for (const KeyFile& file : files_) {
    const std::lock_guard<std::mutex> lock(*file.opening);
    if (file.path != path || !file.fd.ok()) continue;
    MOORING_ASSIGN_OR_RETURN(const UniqueFd found, OpenLockFile(path));
    struct stat before = {}, now = {};
    const bool known = ::fstat(file.fd.get(), &before) == 0 && ::fstat(found.get(), &now) == 0;
    if (known && before.st_dev == now.st_dev && before.st_ino == now.st_ino) continue;
    // Other threads know the number of the descriptor.
    if (::dup3(found.get(), file.fd.get(), O_CLOEXEC) < 0) return ErrnoStatus(errno, "open again the lock file", path);
  }
  return absl::OkStatus();
}

// The file of this host is the first, so the end of a use of the volume waits for no other host.
absl::StatusOr<std::vector<const KeyedLocks::KeyFile*>> KeyedLocks::FilesOf(const std::string& key, Among among) {
  std::vector<const KeyFile*> files;
  if (file_.fd.ok()) files.push_back(&file_);
  const auto found = std::find_if(files_.begin(), files_.end(), [&key](const KeyFile& file) { return file.owns(key); });
  if (found == files_.end() || among == Among::kThisHost) return files;
  if (found->server.answers) {
    MOORING_RETURN_IF_ERROR(found->server.answers());
    const std::lock_guard<std::mutex> lock(*found->opening);
    if (!found->fd.ok()) {
      MOORING_ASSIGN_OR_RETURN(found->fd, OpenLockFile(found->path));
    }
  }
  files.push_back(&*found);
  return files;
}

absl::StatusOr<KeyedLocks::Hold> KeyedLocks::Acquire(const std::string& key, std::string_view what,
                                                     Clock::time_point deadline, Among among) {
  MOORING_RETURN_IF_ERROR(WaitInProcess(key, what, deadline));
  Hold hold(this, key);
  MOORING_ASSIGN_OR_RETURN(const std::vector<const KeyFile*> files, FilesOf(key, among));
  for (const KeyFile* const file : files) {
    MOORING_RETURN_IF_ERROR(WaitForProcesses(*file, key, what, deadline));
    hold.files_.push_back(file);
  }
  return hold;
}

absl::Status KeyedLocks::WaitInProcess(const std::string& key, std::string_view what, Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  Entry& entry = entries_[key];
  ++entry.waiters;
  const bool awake = entry.free.wait_until(lock, deadline, [&] { return !entry.held || !stopped_.ok(); });
  --entry.waiters;
  if (!entry.held && stopped_.ok()) {
    entry.held = true;
    return absl::OkStatus();
  }
  if (!entry.held && entry.waiters == 0) entries_.erase(key);
  return awake ? Copied(stopped_) : Pending(what, key);
}

// This process holds the key already. Other processes are polled, because fcntl(2) has no timeout. Contention between
// processes is rare.
absl::Status KeyedLocks::WaitForProcesses(const KeyFile& file, const std::string& key, std::string_view what,
                                          Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kLongestPause{16};
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    if (SetLock(file.fd, key, F_WRLCK) == 0) return absl::OkStatus();
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      const int error = errno;
      Leave(file, key);  // the server may have set the lock, and then the kernel does not end it at an F_UNLCK
      const absl::Status failed =
          ErrnoStatus(error, fmt::format("take the lock of {} {} in", what, Quote(key)), file.path);
      return error == ETIMEDOUT ? WithCode(absl::StatusCode::kUnavailable, failed) : failed;  // its server is silent
    }
    MOORING_RETURN_IF_ERROR(stopped());
    if (Clock::now() >= deadline) return Pending(what, key);
    std::this_thread::sleep_for(pause);
  }
}

void KeyedLocks::Release(const std::string& key, const std::vector<const KeyFile*>& files) {
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (SetLock((*file)->fd, key, F_UNLCK) != 0) Leave(**file, key);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  found->second.held = false;
  if (found->second.waiters == 0) {
    entries_.erase(found);
  } else {
    found->second.free.notify_one();
  }
}

void KeyedLocks::Leave(const KeyFile& file, const std::string& key) {
  if (&file == &file_) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_.insert(key);
  }
  file.server.lock_left();
}

absl::Status KeyedLocks::EndLeftLocks(const std::function<bool(const std::string& key)>& owns) {
  std::set<std::string> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::copy_if(left_.begin(), left_.end(), std::inserter(left, left.end()), owns);
  }
  absl::Status ended;
  for (const std::string& key : left) ended.Update(EndLeftLock(key));
  return ended;
}

// A thread of this process that has the key may use the lock. Another process of this host may wait for the lock, and
// has the key locked in the file of this host. So that file is not asked.
absl::Status KeyedLocks::EndLeftLock(const std::string& key) {
  MOORING_RETURN_IF_ERROR(WaitInProcess(key, "key", Clock::now()));
  const Hold hold(this, key);
  MOORING_ASSIGN_OR_RETURN(const std::vector<const KeyFile*> files, FilesOf(key, Among::kAll));
  for (const KeyFile* const file : files) {
    if (file == &file_) continue;
    if (SetLock(file->fd, key, F_WRLCK) != 0) {
      if (errno == EAGAIN || errno == EACCES) continue;  // it is another's, so it is not left any more
      return ErrnoStatus(errno, fmt::format("take the lock of {} again, to end it, in", Quote(key)), file->path);
    }
    if (SetLock(file->fd, key, F_UNLCK) != 0) {
      return ErrnoStatus(errno, fmt::format("end the lock of {} in", Quote(key)), file->path);
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.erase(key);
  return absl::OkStatus();
}

absl::Status KeyedLocks::stopped() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Copied(stopped_);
}

void KeyedLocks::Stop(const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = Copied(why);
  for (auto& [key, entry] : entries_) entry.free.notify_all();
}

}  // namespace mooring
