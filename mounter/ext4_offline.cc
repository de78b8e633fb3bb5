#include "mounter/ext4_offline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "base/status.h"
#include "mounter/command.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kCheckLimit{3600};  // a large filesystem with errors takes its time
constexpr std::chrono::seconds kGrowLimit{600};

// False: nothing was overwritten yet. The file's header is written before anything else is.
absl::StatusOr<bool> HoldsRecords(const std::string& undo) {
  constexpr std::string_view kMagic = "E2UNDO02";
  const UniqueFd fd(::open(undo.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::array<char, kMagic.size()> head = {};
  const ssize_t got = fd.ok() ? ::read(fd.get(), head.data(), head.size()) : -1;
  if (got < 0) return ErrnoStatus(errno, "read", undo);
  return std::string_view(head.data(), static_cast<std::size_t>(got)) == kMagic;
}

// Any number of times: each puts back the same blocks. Forced, since the growth did not end as it should.
absl::Status RunUndo(const LockedImage& image) {
  const std::string undo = UndoFileOf(image.path);
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunCommand({"e2undo", "-f", undo, image.path}, "e2fsprogs", kGrowLimit, image.fd));
  if (result.exit_code == 0) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("a growth of the filesystem in {} was cut short, and e2undo cannot take it back (exit code {}): {}; "
                  "nothing was mounted; keep a copy of the image and of {}, then run: e2undo -f {} {}",
                  Quote(image.path), result.exit_code, Quote(result.output, 2048), Quote(undo), undo, image.path));
}

// The image is as it should be, on disk, before the undo file is no more.
absl::Status Forget(const LockedImage& image) {
  const std::string undo = UndoFileOf(image.path);
  if (::fsync(image.fd.get()) != 0) return ErrnoStatus(errno, "write to disk", image.path);
  if (::unlink(undo.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "remove", undo);
  return SyncDirectoryOf(undo);
}

}  // namespace

absl::Status CheckExt4(const LockedImage& image, Thoroughness thoroughness) {
  std::vector<std::string> command = {"e2fsck", "-p", image.path};
  if (thoroughness == Thoroughness::kAlways) command.insert(command.begin() + 1, "-f");
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, RunCommand(command, "e2fsprogs", kCheckLimit, image.fd));
  // fsck(8): 1 and 2 are "corrected"; 4 and above, alone or combined, are not.
  if (result.exit_code < 4) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("the filesystem in {} has errors that e2fsck -p does not mend (exit code {}): {}; "
                  "nothing was mounted; keep a copy, then run: e2fsck -f {}",
                  Quote(image.path), result.exit_code, Quote(result.output, 2048), image.path));
}

absl::Status ResizeExt4(const LockedImage& image) {
  MOORING_RETURN_IF_ERROR(CheckExt4(image, Thoroughness::kAlways));
  const std::vector<std::string> command = {"resize2fs", "-z", UndoFileOf(image.path), image.path};
  // Past the deadline it may still be writing: then the undo file waits for whoever gets the lock next.
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, RunCommand(command, "e2fsprogs", kGrowLimit, image.fd));
  if (result.exit_code == 0) return Forget(image);
  MOORING_RETURN_IF_ERROR(TakeBackGrowth(image));
  const std::string message =
      fmt::format("resize2fs on {} ended with {}: {}", Quote(image.path), result.exit_code, Quote(result.output, 2048));
  const bool full = result.output.find("No space left") != std::string::npos;
  return full ? ResourceExhausted(message) : Internal(message);
}

absl::Status TakeBackGrowth(const LockedImage& image) {
  if (!HasUndoFile(image.path)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool began, HoldsRecords(UndoFileOf(image.path)));
  if (began) MOORING_RETURN_IF_ERROR(RunUndo(image));
  // Before the check: what that mends must not be undone.
  MOORING_RETURN_IF_ERROR(Forget(image));
  return CheckExt4(image, Thoroughness::kAlways);
}

}  // namespace mooring
