#include "mounter/filesystem/ext4_offline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/process/command.h"
#include "mounter/superblock/superblock_guard.h"

namespace mooring {
namespace {

// A large filesystem takes its time. A killed check begins anew, and would never end.
constexpr std::chrono::hours kCheckLimit{12}, kGrowLimit{12};

// False: no block of the image was overwritten yet. The header of the undo file counts the saved blocks, and is written
// before the image.
absl::StatusOr<bool> HoldsRecords(const std::string& undo) {
  struct Header {
    std::array<char, 8> magic;
    std::uint64_t records;
  };
  constexpr std::string_view kMagic = "E2UNDO02";
  const UniqueFd fd(::open(undo.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  Header head = {};
  const ssize_t got = fd.ok() ? ::read(fd.get(), &head, sizeof(head)) : -1;
  if (got < 0) return ErrnoStatus(errno, "read", undo);
  const bool whole = got == sizeof(head) && std::string_view(head.magic.data(), head.magic.size()) == kMagic;
  return whole && head.records != 0;
}

// May be repeated: each run puts back the same blocks. -f, because the program that was undone did not end normally.
absl::Status RunUndo(const LockedImage& image) {
  const std::string undo = UndoFileOf(image.path);
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunCommand({"e2undo", "-f", undo, image.path}, "e2fsprogs", kGrowLimit, {image.fd.get()}));
  // With -f, a block that cannot be read or written is in the output alone.
  const bool is_whole = result.output.find("IO error") == std::string::npos;
  if (result.exit_code == 0 && is_whole) return absl::OkStatus();
  if (result.WasKilled()) return ProgramWasKilled("e2undo", image.path, result);
  return FailedPrecondition(
      "a check or a growth of the filesystem in {} was cut short, and e2undo cannot take it back (exit code {}): {}; "
      "nothing was mounted; keep a copy of the image and of {}, then run: e2undo -f {} {}",
      Quote(image.path), result.exit_code, Quote(result.output, 2048), Quote(undo), undo, image.path);
}

// Creates the undo file with the attribute S of chattr(1), so each saved block is on disk before the image changes.
// Otherwise a power cut could leave a changed image with a part of its undo file. A filesystem without the attribute is
// left to the program. RESOURCE_EXHAUSTED: the disk has no room for the file; e2fsck would crash (1.47.0).
absl::Status PrepareUndo(const LockedImage& image) {
  const std::string undo = UndoFileOf(image.path);
  const UniqueFd fd(::open(undo.c_str(), O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd.ok()) return ErrnoStatus(errno, "create", undo);
  int flags = 0;
  if (::ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) == 0) {
    flags |= FS_SYNC_FL;
    ::ioctl(fd.get(), FS_IOC_SETFLAGS, &flags);
  }
  return SyncDirectoryOf(undo);
}

// The image has to be on disk before the undo file is removed.
absl::Status Forget(const LockedImage& image) {
  const std::string undo = UndoFileOf(image.path);
  if (::fsync(image.fd.get()) != 0) return ErrnoStatus(errno, "write to disk", image.path);
  if (::unlink(undo.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "remove", undo);
  return SyncDirectoryOf(undo);
}

absl::Status PutBack(const LockedImage& image) {
  MOORING_ASSIGN_OR_RETURN(const bool is_there, HasUndoFile(image.path));
  if (!is_there) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool began, HoldsRecords(UndoFileOf(image.path)));
  if (began) MOORING_RETURN_IF_ERROR(RunUndo(image));
  return Forget(image);
}

enum class Undo { kKept, kNone };

// e2fsprogs trust the superblock as much as the kernel does.
absl::Status CheckExt4Superblock(const LockedImage& image) {
  return CheckSuperblock(image.fd.get(), image.path, "ext4");
}

absl::StatusOr<CommandResult> RunCheck(const LockedImage& image, Thoroughness thoroughness, Undo undo) {
  MOORING_RETURN_IF_ERROR(CheckExt4Superblock(image));
  std::vector<std::string> options = {"-p"};
  if (thoroughness == Thoroughness::kAlways) options.emplace_back("-f");
  if (undo == Undo::kKept) {
    const absl::Status prepared = PrepareUndo(image);
    // A repair needs no undo file, so a disk without room for one does not keep it.
    if (!absl::IsResourceExhausted(prepared)) {
      MOORING_RETURN_IF_ERROR(prepared);
      options.insert(options.end(), {"-z", UndoFileOf(image.path)});
    }
  }
  return RunCommand(CommandOfE2fsck(options, image.path), "e2fsprogs", kCheckLimit, {image.fd.get()});
}

// e2fsck and resize2fs write the superblock last, in pieces, and ignore a failed write of it. So this reads it again,
// with its checksum and those of the group descriptors.
absl::StatusOr<CommandResult> ReadAgain(const LockedImage& image) {
  return RunCommand(CommandOfE2fsck({"-n"}, image.path), "e2fsprogs", kCheckLimit, {image.fd.get()});
}

absl::Status NotRepaired(const LockedImage& image, const CommandResult& result) {
  if (result.WasKilled()) return ProgramWasKilled("e2fsck", image.path, result);
  return FailedPrecondition(
      "the filesystem in {} has errors that e2fsck -p does not mend (exit code {}): {}; nothing was mounted; keep a "
      "copy, then run: e2fsck -f {}",
      Quote(image.path), result.exit_code, Quote(result.output, 2048), image.path);
}

// `result`: of e2fsck -n.
absl::Status NotWritten(const LockedImage& image, std::string_view program, const CommandResult& result) {
  if (result.WasKilled()) return ProgramWasKilled("e2fsck", image.path, result);
  return Internal(
      "{} did not write the superblock of {} as a whole (e2fsck -n ends with {}: {}); it was put back as it was",
      program, Quote(image.path), result.exit_code, Quote(result.output, 2048));
}

}  // namespace

std::vector<std::string> CommandOfE2fsck(std::vector<std::string> options, const std::string& path) {
  options.insert(options.begin(), "e2fsck");
  options.insert(options.end(), {"-j", "/dev/null", path});
  return options;
}

// fsck(8): 1 and 2 are "corrected"; 4 and above, alone or combined, are not.
bool IsRepaired(const CommandResult& result) { return result.exit_code < 4; }

absl::Status CheckExt4(const LockedImage& image, Thoroughness thoroughness) {
  // The undo file of a device would lie in memory, and be gone when it is needed.
  const Undo undo = S_ISBLK(image.status.st_mode) ? Undo::kNone : Undo::kKept;
  MOORING_ASSIGN_OR_RETURN(CommandResult result, RunCheck(image, thoroughness, undo));
  if (IsRepaired(result)) {
    // The replayed journal may have held another superblock.
    if (const absl::Status judged = CheckExt4Superblock(image); !judged.ok()) {
      MOORING_RETURN_IF_ERROR(PutBack(image));
      return judged;
    }
    MOORING_ASSIGN_OR_RETURN(const CommandResult read, ReadAgain(image));
    if (read.exit_code == 0) return Forget(image);
    MOORING_RETURN_IF_ERROR(PutBack(image));
    return NotWritten(image, "e2fsck", read);
  }
  MOORING_RETURN_IF_ERROR(PutBack(image));
  if (!result.MeansFullDisk()) return NotRepaired(image, result);
  // The disk has no room for what the undo file would hold.
  MOORING_ASSIGN_OR_RETURN(result, RunCheck(image, thoroughness, Undo::kNone));
  return IsRepaired(result) ? CheckExt4Superblock(image) : NotRepaired(image, result);
}

absl::Status ResizeExt4(const LockedImage& image) {
  MOORING_RETURN_IF_ERROR(CheckExt4(image, Thoroughness::kAlways));
  MOORING_RETURN_IF_ERROR(PrepareUndo(image));
  const std::vector<std::string> command = {"resize2fs", "-z", UndoFileOf(image.path), image.path};
  // Past the deadline resize2fs may still be writing. The next holder of the lock finds the undo file.
  const absl::StatusOr<CommandResult> ran = RunCommand(command, "e2fsprogs", kGrowLimit, {image.fd.get()});
  if (absl::IsFailedPrecondition(ran.status())) return Internal(Message(ran.status()));  // the filesystem is whole
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, ran);
  if (result.exit_code == 0) {
    MOORING_ASSIGN_OR_RETURN(const CommandResult read, ReadAgain(image));
    if (read.exit_code == 0) return Forget(image);
    MOORING_RETURN_IF_ERROR(UndoUnfinished(image));
    return NotWritten(image, "resize2fs", read);
  }
  MOORING_RETURN_IF_ERROR(UndoUnfinished(image));
  if (result.WasKilled()) return ProgramWasKilled("resize2fs", image.path, result);
  const std::string message =
      fmt::format("resize2fs on {} ended with {}: {}", Quote(image.path), result.exit_code, Quote(result.output, 2048));
  return result.MeansFullDisk() ? ResourceExhausted(message) : Internal(message);
}

absl::Status UndoUnfinished(const LockedImage& image) {
  MOORING_ASSIGN_OR_RETURN(const bool is_unfinished, HasUndoFile(image.path));
  if (!is_unfinished) return absl::OkStatus();
  // First undo, then check: the repairs of the check must not be undone.
  MOORING_RETURN_IF_ERROR(PutBack(image));
  return CheckExt4(image, Thoroughness::kAlways);
}

}  // namespace mooring
