#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "base/quote.h"
#include "base/status.h"
#include "mounter/command.h"
#include "mounter/filesystem.h"
#include "mounter/loop_device.h"
#include "mounter/target.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kFormatLimit{100};
constexpr std::chrono::seconds kCheckLimit{3600};  // a large filesystem with errors takes its time

struct Maker {
  std::vector<std::string> command;
  std::string package;
};

// Everything that would write the whole device is put off or left out: a volume is staged in milliseconds, and stays
// sparse.
absl::StatusOr<Maker> MakerOf(const std::string& fs_type, const std::string& path) {
  if (fs_type == "ext4") {
    return Maker{{"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-E",
                  "lazy_itable_init=1,lazy_journal_init=1,nodiscard", path},
                 "e2fsprogs"};
  }
  if (fs_type == "xfs") return Maker{{"mkfs.xfs", "-q", "-K", "-s", "size=512", path}, "xfsprogs"};
  return InvalidArgument(fmt::format("cannot format as {}: ext4 and xfs are known", Quote(fs_type)));
}

absl::Status RunMaker(const std::string& fs_type, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Maker maker, MakerOf(fs_type, path));
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, RunCommand(maker.command, maker.package, kFormatLimit));
  if (result.exit_code == 0) return absl::OkStatus();
  const std::string message = fmt::format("{} on {} ended with {}: {}", maker.command[0], Quote(path), result.exit_code,
                                          Quote(result.output, 2048));
  const bool full = result.output.find("No space left") != std::string::npos;
  return full ? ResourceExhausted(message) : Internal(message);
}

// A second file of the same size, formatted and put in the place of the first. The caller saw that the first is empty.
absl::Status FormatAside(const std::string& path, const std::string& fs_type, const struct stat& old) {
  const std::string aside = path + ".formatting";
  ::unlink(aside.c_str());  // of an mkfs that was killed
  const UniqueFd fd(::open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, old.st_mode & 07777));
  if (!fd.ok()) return ErrnoStatus(errno, "make", aside);
  absl::Cleanup remove = [&aside] { ::unlink(aside.c_str()); };
  if (::ftruncate(fd.get(), old.st_size) != 0) return ErrnoStatus(errno, "size", aside);
  MOORING_RETURN_IF_ERROR(RunMaker(fs_type, aside));
  // On disk before it takes the empty one's place: after a power cut the image is empty or whole, never half a
  // filesystem.
  if (::fdatasync(fd.get()) != 0) return ErrnoStatus(errno, "write to disk", aside);
  if (::rename(aside.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "put the formatted image at", path);
  std::move(remove).Cancel();
  return absl::OkStatus();
}

// Who uses it as a block device would go on writing to the old file after the swap, and nobody would find it again.
absl::Status CheckUnused(const std::string& path, const struct stat& file) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, ListLoops());
  for (const LoopInfo& loop : loops) {
    if (loop.backing_device != file.st_dev || loop.backing_inode != file.st_ino) continue;
    return FailedPrecondition(fmt::format("{} is not formatted: it is in use through {}", Quote(path), loop.device));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FormatFilesystem(const std::string& path, const std::string& fs_type) {
  MOORING_RETURN_IF_ERROR(MakerOf(fs_type, path).status());
  // Held until the new file is in place, so that no loop device is bound to the old one meanwhile.
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY));
  if (::flock(fd.get(), LOCK_EX) != 0) return ErrnoStatus(errno, "lock", path);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, ProbeFilesystem(path));
  if (found.content != FilesystemInfo::Content::kEmpty) {
    return FailedPrecondition(fmt::format("{} is not formatted: it holds {}", Quote(path), found.type));
  }
  if (!S_ISREG(status.st_mode)) return RunMaker(fs_type, path);
  MOORING_RETURN_IF_ERROR(CheckUnused(path, status));
  return FormatAside(path, fs_type, status);
}

absl::Status CheckFilesystem(const std::string& path, const std::string& fs_type) {
  if (fs_type == "xfs")
    return absl::OkStatus();  // fsck.xfs does nothing: the kernel replays the log and refuses what is bad
  if (fs_type != "ext4") return InvalidArgument(fmt::format("cannot check {}", Quote(fs_type)));
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, RunCommand({"e2fsck", "-p", path}, "e2fsprogs", kCheckLimit));
  // fsck(8): 1 and 2 are "corrected"; 4 and above, alone or combined, are not.
  if (result.exit_code < 4) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("the filesystem in {} has errors that e2fsck -p does not mend (exit code {}): {}; "
                  "nothing was mounted; keep a copy, then run: e2fsck -f {}",
                  Quote(path), result.exit_code, Quote(result.output, 2048), path));
}

}  // namespace mooring
