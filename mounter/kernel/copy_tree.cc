// Copies the contents of a directory volume. A tenant may have made them, and other hosts may change them meanwhile. So
// cp(1) gets both directories as mounts on which no link is followed, and which are attached nowhere.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"
#include "mounter/process/command.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

// The files that the program inherits. "/." is the directory behind the link.
constexpr char kFrom[] = "/proc/self/fd/3/.", kTo[] = "/proc/self/fd/4/";
constexpr std::chrono::hours kLimit{11};  // less than that of the call: mounter/helper/call_table.h

absl::StatusOr<UniqueFd> OpenPoolOf(const std::string& directory) {
  return OpenNoSymlinks(std::string(ParentOf(directory)), O_PATH | O_DIRECTORY);
}

// Or opens an empty one.
absl::StatusOr<UniqueFd> MakeVolume(const std::string& directory) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd pool, OpenPoolOf(directory));
  const std::string name(NameOf(directory));
  if (::mkdirat(pool.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "make the directory", directory);
  }
  MOORING_ASSIGN_OR_RETURN(UniqueFd volume, OpenVolumeIn(pool, directory));
  MOORING_ASSIGN_OR_RETURN(const std::string path, ProcFdPath(volume));
  if (!IsKnownEmpty(path)) return AlreadyExists("{} has something in it", Quote(directory));
  return volume;
}

absl::StatusOr<NewMount> ViewOf(const UniqueFd& directory, const std::string& path, bool read_only) {
  MOORING_ASSIGN_OR_RETURN(NewMount view, CloneMount(directory, path, /*recursive=*/false));
  const MountFlags flags = {.read_only = read_only, .nosuid = true, .nodev = true, .noexec = true, .nosymfollow = true};
  MOORING_RETURN_IF_ERROR(view.Set(flags, Propagation::kPrivate, /*recursive=*/false));
  return view;
}

absl::Status Failure(const std::string& source, const std::string& destination, const CommandResult& result) {
  if (result.WasKilled()) return ProgramWasKilled("cp", destination, result);
  const std::string said = absl::StrReplaceAll(result.output, {{kFrom, source}, {kTo, destination + "/"}});
  const std::string_view hint = said.find("security.capability") == std::string::npos
                                    ? ""
                                    : ": a file has capabilities, and CAP_SETFCAP copies them";
  const std::string message = fmt::format("copy {} to {}: cp ended with {}: {}{}", Quote(source), Quote(destination),
                                          result.exit_code, Quote(said, 2048), hint);
  return result.MeansFullDisk() ? ResourceExhausted(message) : FailedPrecondition(message);
}

}  // namespace

absl::Status KernelMounter::CopyTree(const std::string& source, const std::string& destination) {
  MOORING_RETURN_IF_ERROR(CheckNothingMountedBelow(source));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd pool, OpenPoolOf(source));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd from, OpenVolumeIn(pool, source));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd to, MakeVolume(destination));
  MOORING_ASSIGN_OR_RETURN(const NewMount read, ViewOf(from, source, /*read_only=*/true));
  MOORING_ASSIGN_OR_RETURN(const NewMount written, ViewOf(to, destination, /*read_only=*/false));
  // The views have no mounts below them, and a btrfs subvolume inside is a part of the volume. Named alone, `xattr`
  // makes an attribute that cannot be copied an error.
  const std::vector<std::string> command = {
      "cp", "--archive", "--preserve=xattr", "--reflink=auto", "--sparse=auto", "--", kFrom, kTo};
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunCommand(command, "coreutils", kLimit, {read.fd().get(), written.fd().get()}));
  if (result.exit_code != 0) return Failure(source, destination, result);
  // Opened before the copy, so that it has seen each failed write.
  if (::syncfs(to.get()) != 0) return ErrnoStatus(errno, "write to the disk", destination);
  return absl::OkStatus();
}

}  // namespace mooring
