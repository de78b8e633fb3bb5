#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/ext4_offline.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/image/image.h"
#include "mounter/loop/attachment_lock.h"
#include "mounter/loop/loop_device.h"
#include "mounter/process/command.h"
#include "mounter/superblock/btrfs_super.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/superblock_guard.h"

namespace mooring {
namespace {

// Keeps the blocks that mkfs wrote into an image, and writes them again into the next image of exactly that size. This
// saves the start of mkfs. It writes a few hundred KiB into an image of 1 GiB, the same each time but for the UUID.
//
//   first image of a size:   mkfs ──▶ blocks that are not zero ──▶ template, for the last few sizes
//   next image:              template ──▶ file ──▶ new UUID in its superblocks
class Template {
 public:
  // The data of a file. Null: it is too much to keep.
  static absl::StatusOr<std::shared_ptr<const Template>> Of(const UniqueFd& file, const std::string& path);

  // Writes the data into an empty file of the same size.
  absl::Status WriteTo(const UniqueFd& file, const std::string& path) const;

  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Extent {
    std::uint64_t at = 0;
    std::string data;
  };
  void Add(std::uint64_t at, std::string_view block);

  std::vector<Extent> extents_;
  std::uint64_t bytes_ = 0;
};

constexpr std::uint64_t kBlock = 4096;

// Limits the memory of the helper. The template of an ext4 of 10 GiB has 4 MiB, that of 1 GiB a seventh of it.
constexpr std::uint64_t kMostBytes = 8U << 20U;
constexpr std::size_t kMostTemplates = 8;

bool IsZero(std::string_view block) { return block.find_first_not_of('\0') == std::string_view::npos; }

struct Kept {
  std::string kind;
  std::uint64_t size = 0;
  std::shared_ptr<const Template> made;
};

// The template used last is first.
struct TemplateCache {
  std::mutex mutex;
  std::list<Kept> kept;

  std::list<Kept>::iterator Find(const std::string& kind, std::uint64_t size) {
    return std::find_if(kept.begin(), kept.end(),
                        [&](const Kept& entry) { return entry.kind == kind && entry.size == size; });
  }
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const Kept& entry : kept) bytes += entry.made->bytes();
    return bytes;
  }
};

TemplateCache& Templates() {
  static TemplateCache cache;
  return cache;
}

void Template::Add(std::uint64_t at, std::string_view block) {
  if (extents_.empty() || extents_.back().at + extents_.back().data.size() != at) extents_.push_back({at, ""});
  extents_.back().data += block;
  bytes_ += block.size();
}

absl::StatusOr<std::shared_ptr<const Template>> Template::Of(const UniqueFd& file, const std::string& path) {
  auto made = std::make_shared<Template>();
  std::array<char, kBlock> block = {};
  for (off_t at = 0, hole = 0;; at += static_cast<off_t>(kBlock)) {
    if (at >= hole) {
      at = ::lseek(file.get(), at, SEEK_DATA);
      if (at < 0 && errno == ENXIO) return made;
      hole = at < 0 ? -1 : ::lseek(file.get(), at, SEEK_HOLE);
      if (hole < 0) return ErrnoStatus(errno, "look for data in", path);
    }
    const ssize_t got = ::pread(file.get(), block.data(), block.size(), at);
    if (got < 0) return ErrnoStatus(errno, "read", path);
    const std::string_view data(block.data(), static_cast<std::size_t>(got));
    if (!IsZero(data)) made->Add(static_cast<std::uint64_t>(at), data);
    if (made->bytes() > kMostBytes) return std::shared_ptr<const Template>();
  }
}

absl::Status Template::WriteTo(const UniqueFd& file, const std::string& path) const {
  for (const Extent& extent : extents_) {
    for (std::size_t done = 0; done < extent.data.size();) {
      const ssize_t put = ::pwrite(file.get(), extent.data.data() + done, extent.data.size() - done,
                                   static_cast<off_t>(extent.at + done));
      if (put < 0) return ErrnoStatus(errno, "write", path);
      done += static_cast<std::size_t>(put);
    }
  }
  return absl::OkStatus();
}

// The templates of this process; safe from several threads. Null: there is none.
// `kind`: the filesystem and the options of its mkfs.
std::shared_ptr<const Template> FindTemplate(const std::string& kind, std::uint64_t size) {
  TemplateCache& cache = Templates();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  const auto found = cache.Find(kind, size);
  if (found == cache.kept.end()) return nullptr;
  cache.kept.splice(cache.kept.begin(), cache.kept, found);
  return found->made;
}

void KeepTemplate(const std::string& kind, std::uint64_t size, std::shared_ptr<const Template> made) {
  TemplateCache& cache = Templates();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  if (cache.Find(kind, size) != cache.kept.end()) return;
  cache.kept.push_front({kind, size, std::move(made)});
  while (cache.kept.size() > kMostTemplates || cache.Bytes() > kMostBytes) cache.kept.pop_back();
}

constexpr std::chrono::seconds kFormatLimit{100};

struct Maker {
  std::vector<std::string> command;
  std::string package;
};

// These options put off or leave out all that would write the whole device. So a stage takes milliseconds, and the
// image stays sparse. A device may hold the journal of an earlier filesystem, which must not be replayed: there the
// place of the new journal is cleared.
absl::StatusOr<Maker> DefaultMakerOf(const std::string& fs_type, bool is_file) {
  if (fs_type == "ext4") {
    return Maker{
        {"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-e", "remount-ro", "-O", "metadata_csum,metadata_csum_seed",
         "-E", fmt::format("lazy_itable_init=1,lazy_journal_init={},nodiscard", is_file ? 1 : 0)},
        "e2fsprogs"};
  }
  if (fs_type == "xfs") {
    Maker maker = {{"mkfs.xfs", "-q", "-K"}, "xfsprogs"};
    // The loop device of an image has these sectors. A disk or mapping may have larger ones.
    if (is_file) maker.command.insert(maker.command.end(), {"-s", "size=512"});
    return maker;
  }
  if (fs_type == "btrfs") return Maker{{"mkfs.btrfs", "-q", "-K"}, "btrfs-progs"};
  return InvalidArgument("cannot format as {}: ext4, xfs and btrfs are known", Quote(fs_type));
}

absl::StatusOr<Maker> MakerOf(const FormatRequest& request, bool is_file) {
  MOORING_ASSIGN_OR_RETURN(Maker maker, DefaultMakerOf(request.fs_type, is_file));
  MOORING_RETURN_IF_ERROR(CheckFormatOptions(request.fs_type, request.options));
  for (std::string& argument : FormatArguments(request.fs_type, request.options)) {
    maker.command.push_back(std::move(argument));
  }
  maker.command.push_back(request.path);
  return maker;
}

// mkfs.btrfs reports a full disk as an I/O error.
bool HasNoRoom(const LockedImage& image) {
  constexpr std::uint64_t kNearlyNothing = 1U << 20U;
  struct statvfs filesystem = {};
  if (!S_ISREG(image.status.st_mode) || ::fstatvfs(image.fd.get(), &filesystem) != 0) return false;
  return std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize < kNearlyNothing;
}

// mkfs.btrfs writes its superblocks last, and ends with 0 if that fails. Without this check the broken filesystem would
// also become the template of later volumes.
absl::Status CheckMade(const FormatRequest& request, const LockedImage& image, const std::string& maker) {
  const UniqueFd fd(::open(request.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return ErrnoStatus(errno, "open what was formatted at", request.path);
  absl::Status made = CheckSuperblock(fd.get(), request.path, request.fs_type);
  if (made.ok() && request.fs_type == "btrfs") made = CheckBtrfsCopies(fd.get(), request.path);
  if (!absl::IsFailedPrecondition(made)) return made;
  const std::string message = fmt::format("{} ended without an error, but its writes failed: {}", maker, Message(made));
  return HasNoRoom(image) ? ResourceExhausted(message) : Internal(message);
}

absl::Status RunMaker(const FormatRequest& request, const LockedImage& image,
                      const std::vector<std::string>& environment) {
  MOORING_ASSIGN_OR_RETURN(const Maker maker, MakerOf(request, S_ISREG(image.status.st_mode)));
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunCommand(maker.command, maker.package, kFormatLimit, {image.fd.get()}, environment));
  if (result.exit_code == 0) return CheckMade(request, image, maker.command[0]);
  if (result.WasKilled()) return ProgramWasKilled(maker.command[0], request.path, result);
  const std::string message = fmt::format("{} on {} ended with {}: {}", maker.command[0], Quote(request.path),
                                          result.exit_code, Quote(result.output, 2048));
  const bool full = result.MeansFullDisk() || HasNoRoom(image);
  return full ? ResourceExhausted(message) : Internal(message);
}

// Removes the files of a killed mkfs. The caller holds the image's lock, which an mkfs that still runs would hold.
absl::Status RemoveLeftovers(const std::string& path) {
  const std::string directory(ParentOf(path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOf(directory));
  for (const std::string& name : names) {
    if (!IsFormattingLeftover(name, NameOf(path))) continue;
    const std::string leftover = directory + "/" + name;
    if (::unlink(leftover.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "remove", leftover);
  }
  return absl::OkStatus();
}

absl::Status RenewFresh(const std::string& fs_type, const UniqueFd& file, const std::string& path) {
  return fs_type == "ext4" ? RenewFreshExt4(file, path) : RenewBtrfs(path);
}

// Runs mkfs, or writes what it wrote with these options into another file of this size.
absl::Status Fill(const UniqueFd& file, const FormatRequest& request, const LockedImage& image) {
  const auto& [path, fs_type, options] = request;
  const auto size = static_cast<std::uint64_t>(image.status.st_size);
  const std::string key = fmt::format("{} {}", fs_type, ToString(options));
  if (const std::shared_ptr<const Template> made = FindTemplate(key, size)) {
    MOORING_RETURN_IF_ERROR(made->WriteTo(file, path));
    return RenewFresh(fs_type, file, path);
  }
  MOORING_RETURN_IF_ERROR(RunMaker(request, image, kNotMounted));
  if (fs_type == "xfs") return absl::OkStatus();  // its log holds its UUID too
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<const Template> made, Template::Of(file, path));
  if (made != nullptr) KeepTemplate(key, size, std::move(made));
  return absl::OkStatus();
}

// Formats a second file of the same size, and puts it in the place of the first, which the caller found empty.
absl::Status FormatAside(const LockedImage& image, const FormatRequest& request) {
  MOORING_RETURN_IF_ERROR(RemoveLeftovers(image.path));
  // A new name, which no earlier mkfs can open.
  const std::string aside = fmt::format("{}{}-{}", image.path, kFormattingSuffix, RandomHex(4));
  UniqueFd made(
      ::open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, image.status.st_mode & 07777));
  if (!made.ok()) return ErrnoStatus(errno, "make", aside);
  absl::Cleanup remove = [&aside] { ::unlink(aside.c_str()); };
  // Nobody may mount it before the rename is on disk.
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, LockOpenImage(std::move(made), aside, {}));
  MOORING_RETURN_IF_ERROR(LockAttachment(fd, aside, ImageAccess::kWrite));
  MOORING_RETURN_IF_ERROR(GiveTo(image.status, fd, aside));
  if (::ftruncate(fd.get(), image.status.st_size) != 0) return ErrnoStatus(errno, "size", aside);
  MOORING_RETURN_IF_ERROR(Fill(fd, {aside, request.fs_type, request.options}, image));
  // The data is on disk before the rename: after a power cut the image is empty or whole, never half a filesystem. The
  // rename is on disk before the volume is written: a lost rename would lose these writes.
  if (::fdatasync(fd.get()) != 0) return ErrnoStatus(errno, "write to disk", aside);
  if (::rename(aside.c_str(), image.path.c_str()) != 0) {
    return ErrnoStatus(errno, "put the formatted image at", image.path);
  }
  std::move(remove).Cancel();
  const absl::Status synced = SyncDirectoryOf(image.path);
  if (synced.ok()) return synced;
  // The next stage would mount the filesystem, and a power cut could still undo the rename. An empty image is formatted
  // again.
  if (::ftruncate(fd.get(), 0) != 0 || ::ftruncate(fd.get(), image.status.st_size) != 0) {
    return Annotate(ErrnoStatus(errno, "empty again", image.path), Message(synced));
  }
  return synced;
}

}  // namespace

absl::Status FormatFilesystem(const FormatRequest& request) {
  const std::string& path = request.path;
  MOORING_RETURN_IF_ERROR(MakerOf(request, true).status());
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(path));
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, ProbeFilesystem(path));
  if (found.content != FilesystemInfo::Content::kEmpty) {
    return FailedPrecondition("{} is not formatted: it holds {}", Quote(path), found.type);
  }
  if (!S_ISREG(image.status.st_mode)) return RunMaker(request, image, {});
  // A user of the block device would go on writing to the old file after the rename, and these writes would be lost.
  MOORING_ASSIGN_OR_RETURN(const UniqueFd unattached, LockUnattached(image));
  return FormatAside(image, request);
}

absl::Status CheckFilesystem(const std::string& path, const std::string& fs_type) {
  // fsck.xfs and fsck.btrfs do nothing: the kernel replays the log and refuses what is bad.
  if (fs_type == "xfs" || fs_type == "btrfs") return absl::OkStatus();
  if (fs_type != "ext4") return InvalidArgument("cannot check {}", Quote(fs_type));
  MOORING_ASSIGN_OR_RETURN(const LockedImage image, LockImage(path));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd unattached, LockUnattached(image));
  MOORING_RETURN_IF_ERROR(UndoUnfinished(image));
  return CheckExt4(image, Thoroughness::kWhereMarked);
}

}  // namespace mooring
