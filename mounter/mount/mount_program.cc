#include "mounter/mount/mount_program.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/libmount_call.h"
#include "mounter/path/lazy_unmount.h"
#include "mounter/process/child_call.h"
#include "mounter/table/mount_info_file.h"

namespace mooring {
namespace {

bool IsKnownToKernel(const std::string& fs_type) {
  const UniqueFd context(::fsopen(fs_type.c_str(), FSOPEN_CLOEXEC));
  return context.ok() || errno != ENODEV;
}

bool HasProgram(const std::string& fs_type) {
  constexpr std::array kDirectories = {"/sbin", "/sbin/fs.d", "/sbin/fs"};  // those of libmount
  return std::any_of(kDirectories.begin(), kDirectories.end(), [&](const char* directory) {
    return ::access(fmt::format("{}/mount.{}", directory, fs_type).c_str(), X_OK) == 0;
  });
}

// The work of the child.
absl::Status RunProgram(const LibmountCall& call) {
  const int status = RunMountProgram(call);
  if (status == 0) return absl::OkStatus();
  if (status < 0) return FailedPrecondition("it was killed, or did not start");
  return FailedPrecondition("exit status {}", status);
}

bool IsFuse(const std::string& fs_type) { return fs_type.starts_with("fuse"); }  // also "fuseblk", "fuse.TYPE"

// A read-only filesystem is shown as such.
MountFlags FlagsOf(const TableMount& mount) {
  MountFlags flags = mount.flags;
  flags.read_only = flags.read_only || mount.superblock_read_only;
  return flags;
}

// Returns the flags of the mount. A program may say that it has succeeded although it has mounted nothing, or something
// else.
absl::StatusOr<MountFlags> CheckMade(const std::string& place, dev_t number) {
  MOORING_ASSIGN_OR_RETURN(std::vector<TableMount> mounts, ReadMountInfo("/proc/self/mountinfo"));
  std::erase_if(mounts,
                [&](const TableMount& mount) { return mount.target != place && !IsBelow(mount.target, place); });
  if (mounts.empty()) return FailedPrecondition("it says that it has succeeded, and has mounted nothing");
  if (mounts.size() > 1) return FailedPrecondition("it has made {} mounts, not one", mounts.size());
  const TableMount& made = mounts.front();
  if (made.root == "/" && (made.device == number || IsFuse(made.fs_type))) return FlagsOf(made);
  return FailedPrecondition("it has mounted something else: {} of {}", made.fs_type, Quote(made.source));
}

absl::Status WithOutput(const absl::Status& status, const MountRequest& request, const std::string& output) {
  const std::string said = output.empty() ? "" : fmt::format("; its error output: {}", output);
  return absl::Status(status.code(), fmt::format("mount.{} on {}: {}{}", request.fs_type, Quote(request.source),
                                                 Message(status), said));
}

void UnmountAll(const std::string& place) {
  constexpr int kMost = 100;
  for (int count = 0; count < kMost && UnmountLazily(place) == 0; ++count) {
  }
}

}  // namespace

bool NeedsMountProgram(const std::string& fs_type) {
  return fs_type.find('/') == std::string::npos && !IsKnownToKernel(fs_type) && HasProgram(fs_type);
}

absl::StatusOr<ProgramMount> MakeMountByProgram(const MountRequest& request, const std::string& device, dev_t number,
                                                std::chrono::milliseconds limit) {
  MOORING_ASSIGN_OR_RETURN(ScratchPlace place, ScratchPlace::Take(TargetKind::kDirectory));
  const std::string path = place.path();
  LibmountCall call = {.source = device, .target = path, .fs_type = request.fs_type, .words = ToString(request.flags)};
  AddWords(call.words, OptionWords(request.options));
  absl::Cleanup unmount = [&path] { UnmountAll(path); };
  const ChildEnd end = RunInChild("the program", limit, [&call] { return RunProgram(call); });
  const absl::StatusOr<MountFlags> made = end.status.ok() ? CheckMade(path, number) : end.status;
  if (!made.ok()) return WithOutput(made.status(), request, end.errors);
  UniqueFd root = place.Open();
  if (!root.ok()) return ErrnoStatus(errno, "open the new mount of", request.source);
  NewMount mount(std::move(root), request.source, std::move(place));
  const MountFlags flags = Stricter(*made, request.flags);
  MOORING_RETURN_IF_ERROR(mount.Set(flags, request.propagation, false));
  std::move(unmount).Cancel();
  return ProgramMount{std::move(mount), flags};
}

}  // namespace mooring
