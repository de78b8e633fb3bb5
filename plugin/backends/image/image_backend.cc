#include "plugin/backends/image/image_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <set>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/image/image.h"
#include "mounter/loop/attachment_lock.h"
#include "mounter/loop/settle.h"
#include "plugin/backends/interface/pool_space.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30'000};  // for a mkfs of another process, which holds the lock
constexpr milliseconds kNoPatience{0};

absl::Status RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, "remove", path);
}

absl::StatusOr<struct stat> CheckRegular(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) return ErrnoStatus(errno, "look at", path);
  if (!S_ISREG(found.st_mode)) {
    return FailedPrecondition("{} is no regular file: it is not a volume of mine", Quote(path));
  }
  return found;
}

// NOT_FOUND: there is none.
absl::StatusOr<UniqueFd> OpenImage(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return ErrnoStatus(errno, "open the image", path);
  MOORING_RETURN_IF_ERROR(CheckRegular(fd.get(), path).status());
  return fd;
}

// Opens and locks the image. NOT_FOUND: there is none. Formatting replaces the file, so the file is compared again
// under the lock.
absl::StatusOr<UniqueFd> OpenLocked(const std::string& path, milliseconds patience) {
  return OpenUnderLock(
      path, [&path] { return OpenImage(path); }, patience);
}

absl::Status Resize(int fd, const std::string& path, std::uint64_t bytes) {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0 || ::fsync(fd) != 0) {
    return ErrnoStatus(errno, fmt::format("give {} to", SizeText(bytes)), path);
  }
  return absl::OkStatus();
}

// The image of this volume that an earlier Create made.
absl::Status FinishImage(const std::string& path, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenLocked(path, kPatience));
  MOORING_ASSIGN_OR_RETURN(const struct stat found, CheckRegular(fd.get(), path));
  const auto has = static_cast<std::uint64_t>(found.st_size);
  if (has == bytes) return absl::OkStatus();
  if (has == 0) return Resize(fd.get(), path, bytes);
  return Internal("{} has {} where {} were to be made: it is left as it is", Quote(path), SizeText(has),
                  SizeText(bytes));
}

absl::Status MakeImage(const std::string& path, std::uint64_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok() && errno == EEXIST) return FinishImage(path, bytes);
  if (!fd.ok()) return ErrnoStatus(errno, "create the image", path);
  absl::Status resized = Resize(fd.get(), path, bytes);
  if (!resized.ok()) ::unlink(path.c_str());
  return resized;
}

// The volume id if `name` is a leftover of a killed mkfs, else empty.
std::string IdOfLeftover(const std::string& name) {
  const std::string image = name.substr(0, name.find(kFormattingSuffix));
  return IsFormattingLeftover(name, image) ? IdOfFile(image, kImageSuffix) : "";
}

// The id if `name` is an unfinished copy, else empty.
std::string IdOfCopy(const std::string& name) {
  const std::string image = name.substr(0, name.find(kCopyingSuffix));
  return IsCopyingLeftover(name, image) ? IdOfFile(image, kImageSuffix) : "";
}

// ABORTED: another process writes the copy, and has locked it.
absl::Status RemoveCopy(const std::string& path) {
  const absl::StatusOr<UniqueFd> copy = OpenLocked(path, kNoPatience);
  if (absl::IsNotFound(copy.status())) return absl::OkStatus();
  return copy.ok() ? RemoveFile(path) : copy.status();
}

// The volume id if `name` is the undo file of its image, else empty.
std::string IdOfUndoFile(const std::string& name) { return IdOfFile(name, UndoFileOf(std::string(kImageSuffix))); }

void LogIfStays(const std::string& name, const absl::Status& removed) {
  log::WarningIfFailed(removed, "a leftover file could not be removed", {{"file", name}});
}

// Without its mount a shared pool is an empty directory of this host. The plugin still has the records open.
absl::Status CheckMounted(const std::string& directory, bool shared) {
  const std::string records = directory + std::string(kSharedRecords);
  if (!shared || ::access(records.c_str(), F_OK) == 0) return absl::OkStatus();
  if (errno != ENOENT) return ErrnoStatus(errno, "look at", records);
  return absl::UnavailableError(fmt::format(
      "the shared pool {} is not mounted on this host, because {} is missing: mount its filesystem, and call again",
      Quote(directory), Quote(records)));
}

absl::Status Prepare(const std::string& directory, IfMissing if_missing, bool shared) {
  if (if_missing == IfMissing::kMake) return MakePrivateDirectory(directory);
  if (::access(directory.c_str(), F_OK) == 0 || errno != ENOENT) return CheckMounted(directory, shared);
  return FailedPrecondition(
      "the directory of volumes {} is missing, and none is made in a shared pool or with --require-directories: mount "
      "its filesystem, and call again",
      Quote(directory));
}

std::string DeviceNames(const std::vector<LoopInfo>& loops) {
  std::string names;
  for (const LoopInfo& loop : loops) names += (names.empty() ? "" : ", ") + loop.device;
  return names;
}

}  // namespace

ImageBackend::ImageBackend(std::string directory, LoopDevices& loops, Contents& contents, IfMissing if_missing,
                           bool shared)
    : directory_(std::move(directory)), if_missing_(if_missing), shared_(shared), loops_(loops), contents_(contents) {
  if (if_missing == IfMissing::kRefuse)
    MakePrivateDirectory(directory_).IgnoreError();  // later calls report a missing directory
}

absl::Status ImageBackend::PrepareDirectory() const { return Prepare(directory_, if_missing_, shared_); }

absl::Status ImageBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  MOORING_RETURN_IF_ERROR(PrepareDirectory());
  MOORING_RETURN_IF_ERROR(CheckSpace(draft.bytes));
  MOORING_RETURN_IF_ERROR(MakeImage(PathOf(draft.id), draft.bytes));
  return SyncDirectoryOf(PathOf(draft.id));
}

absl::Status ImageBackend::Copy(const std::vector<CopyDraft>& drafts) {
  std::vector<ImageCopy> copies;
  for (const CopyDraft& draft : drafts) {
    if (!IsStoredId(draft.id)) return Internal("{} is no id of a volume or snapshot", Quote(draft.id));
    copies.push_back({draft.source, PathOf(draft.id), draft.bytes, draft.renew_fs_type});
  }
  MOORING_RETURN_IF_ERROR(PrepareDirectory());
  for (const CopyDraft& draft : drafts) {
    // A volume may fill up to its size. A snapshot takes only its data, and the copy itself finds out whether that
    // fits.
    if (IsVolumeId(draft.id)) MOORING_RETURN_IF_ERROR(CheckSpace(draft.bytes));
  }
  return contents_.Copy(copies);
}

absl::Status ImageBackend::Delete(const std::string& id) {
  return DeleteIfUnused(id, [] { return absl::OkStatus(); });
}

// Looks for loop devices only once, because it holds the lock of the image meanwhile.
absl::Status ImageBackend::DeleteIfUnused(const std::string& id, const std::function<absl::Status()>& begin) {
  if (!IsStoredId(id)) return begin();
  const std::string path = PathOf(id);
  const absl::StatusOr<UniqueFd> image = OpenLocked(path, kNoPatience);
  if (absl::IsNotFound(image.status())) {
    // If the state directory is missing too, its disk may be mounted again later, with the image.
    const std::string state_dir(ParentOf(directory_));
    if (::access(state_dir.c_str(), F_OK) != 0) return Unexpected(ErrnoStatus(errno, "find", state_dir));
    MOORING_RETURN_IF_ERROR(CheckMounted(directory_, shared_));
    MOORING_RETURN_IF_ERROR(begin());
    MOORING_RETURN_IF_ERROR(RemoveBeside(id));
    return Locate(id).ok() ? Delete(id) : absl::OkStatus();  // a copy became the image meanwhile
  }
  MOORING_RETURN_IF_ERROR(image.status());
  MOORING_RETURN_IF_ERROR(WaitUntilNoLoop(path));
  MOORING_RETURN_IF_ERROR(LockAttachment(*image, path, ImageAccess::kWrite));  // until it is deleted
  MOORING_RETURN_IF_ERROR(begin());
  // The image goes first: without its undo file, a half-grown image could be used again.
  MOORING_RETURN_IF_ERROR(RemoveFile(path));
  MOORING_RETURN_IF_ERROR(RemoveBeside(id));
  return SyncDirectoryOf(path);
}

absl::Status ImageBackend::RemoveBeside(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(directory_));
  for (const std::string& name : names) {
    const std::string path = directory_ + "/" + name;
    if (IdOfLeftover(name) == id || IdOfUndoFile(name) == id) MOORING_RETURN_IF_ERROR(RemoveFile(path));
    if (IdOfCopy(name) == id) MOORING_RETURN_IF_ERROR(RemoveCopy(path));
  }
  return absl::OkStatus();
}

absl::Status ImageBackend::CheckUnused(const std::string& id) {
  const absl::Status located = Locate(id).status();
  if (absl::IsNotFound(located)) return CheckMounted(directory_, shared_);
  MOORING_RETURN_IF_ERROR(located);
  const std::string path = PathOf(id);
  MOORING_RETURN_IF_ERROR(WaitUntilNoLoop(path));
  const absl::StatusOr<UniqueFd> image = OpenImage(path);
  if (absl::IsNotFound(image.status())) return absl::OkStatus();  // another process deleted it
  return image.ok() ? LockAttachment(*image, path, ImageAccess::kWrite) : image.status();
}

absl::Status ImageBackend::WaitUntilNoLoop(const std::string& path) {
  const absl::StatusOr<std::vector<LoopInfo>> loops =
      AskUntilSettled([&] { return loops_.FindLoops(path); }, [](const auto& found) { return !found.empty(); });
  if (absl::IsNotFound(loops.status())) return absl::OkStatus();  // another process deleted it
  MOORING_RETURN_IF_ERROR(loops.status());
  if (loops->empty()) return absl::OkStatus();
  return FailedPrecondition(
      "the volume is in use on this host through {}: unpublish and unstage it first. If it is neither, a process in "
      "another mount namespace has it mounted: as root on the host, mooring doctor {} names that process",
      DeviceNames(*loops), ShellQuote(NameOf(path).substr(0, NameOf(path).rfind('.'))));
}

absl::Status ImageBackend::Grow(const std::string& id, std::uint64_t bytes) {
  MOORING_RETURN_IF_ERROR(Locate(id).status());
  const std::string path = PathOf(id);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenLocked(path, kPatience));
  MOORING_ASSIGN_OR_RETURN(const struct stat found, CheckRegular(fd.get(), path));
  const auto has = static_cast<std::uint64_t>(found.st_size);
  if (has >= bytes) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(LockGrowth(fd, path));
  MOORING_RETURN_IF_ERROR(CheckSpace(bytes - has));
  return Resize(fd.get(), path, bytes);
}

// A volume may grow while this host uses it. Another host would not notice that the file of its loop device grows. The
// hosts of a shared pool notice it in NodeExpandVolume, which follows.
absl::Status ImageBackend::LockGrowth(const UniqueFd& fd, const std::string& path) {
  if (shared_) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool unattached, TryLockAttachment(fd, path, ImageAccess::kWrite));
  if (unattached) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, loops_.FindLoops(path));
  return loops.empty() ? LockAttachment(fd, path, ImageAccess::kWrite) : absl::OkStatus();
}

absl::StatusOr<VolumeLocation> ImageBackend::Locate(const std::string& id) const {
  if (!IsStoredId(id)) return NotFound("volume {} does not exist", Quote(id));
  const std::string path = PathOf(id);
  struct statx found = {};
  // The kernel's cached attributes suffice, so that one hanging file server does not block a list. In a shared pool
  // they may be older than a growth by another host.
  const int flags = AT_SYMLINK_NOFOLLOW | (shared_ ? AT_STATX_FORCE_SYNC : AT_STATX_DONT_SYNC);
  if (::statx(AT_FDCWD, path.c_str(), flags, STATX_TYPE | STATX_SIZE, &found) != 0) {
    return ErrnoStatus(errno, "find the image", path);
  }
  if (!S_ISREG(found.stx_mode)) return Internal("{} is no regular file", Quote(path));
  return VolumeLocation{.path = path, .bytes = found.stx_size};
}

absl::StatusOr<BackendCapacity> ImageBackend::Capacity() const {
  const auto ask = [directory = directory_, if_missing = if_missing_,
                    shared = shared_]() -> absl::StatusOr<BackendCapacity> {
    MOORING_RETURN_IF_ERROR(Prepare(directory, if_missing, shared));
    return SpaceIn(directory);
  };
  return AskInTime(directory_, ask);
}

// A new image has no data extent.
bool ImageBackend::HoldsData(const std::string& id) const {
  const UniqueFd fd(::open(PathOf(id).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return !fd.ok() || ::lseek(fd.get(), 0, SEEK_DATA) >= 0 || errno != ENXIO;
}

absl::Status ImageBackend::CheckSpace(std::uint64_t more_bytes) const {
  MOORING_RETURN_IF_ERROR(PrepareDirectory());
  return CheckSpaceIn(directory_, more_bytes);
}

absl::StatusOr<std::vector<std::string>> ImageBackend::Reconcile() {
  MOORING_RETURN_IF_ERROR(PrepareDirectory());
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(directory_));
  std::set<std::string> ids;
  for (const std::string& name : names) {
    ids.insert(IdOfFile(name, kImageSuffix));
    if (!IdOfCopy(name).empty()) LogIfStays(name, RemoveCopy(directory_ + "/" + name));
    const std::string formatted = IdOfLeftover(name), grown = IdOfUndoFile(name);
    const std::string id = formatted + grown;  // at least one is empty
    if (id.empty()) continue;
    // A process that formats the image has locked it. Without an image there is nothing to format or to undo.
    const absl::StatusOr<UniqueFd> image = OpenLocked(PathOf(id), kNoPatience);
    const bool waste = image.ok() ? grown.empty() : absl::IsNotFound(image.status());
    if (waste) LogIfStays(name, RemoveFile(directory_ + "/" + name));
  }
  ids.erase("");
  return std::vector<std::string>(ids.begin(), ids.end());
}

std::string ImageBackend::PathOf(const std::string& id) const {
  return directory_ + "/" + id + std::string(kImageSuffix);
}

namespace {

absl::Status CompleteImagePool(PoolConfig& pool) {
  const bool lies_in_state_dir = pool.name == kDefaultPool;
  if (!pool.path.empty()) return absl::OkStatus();
  if (pool.shared) return InvalidArgument("path is missing: name the directory that the hosts share");
  return lies_in_state_dir ? absl::OkStatus() : InvalidArgument("path is missing");
}

std::unique_ptr<Backend> MakeImageBackend(const PoolConfig& pool, const std::string& directory,
                                          const BackendParts& parts) {
  return std::make_unique<ImageBackend>(directory, parts.mounter, parts.mounter, parts.if_missing, pool.shared);
}

}  // namespace

const BackendType& ImageBackendType() {
  static const BackendType kType = {
      .traits = {.name = "image",
                 .staging = Staging::kLoopDevice,
                 .block = true,
                 .snapshots = true,
                 .snapshot_blocks = true,
                 .clones = true,
                 .grows = true,
                 .enforces_size = true,
                 .tunes = true,
                 .fs_types = {"ext4", "xfs", "btrfs"}},
      .pool_keys = {"path", "overcommit", "shared"},
      .complete = CompleteImagePool,
      .owns_path = true,
      .entry_suffix = kImageSuffix,
      .make = MakeImageBackend,
      .allow = [](const PoolConfig& pool, PoolAccess& access) { access.image_directories.push_back(pool.path); }};
  return kType;
}

}  // namespace mooring
