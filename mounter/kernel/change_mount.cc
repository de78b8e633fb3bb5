// Changes the flags of existing mounts and the options of their filesystems.
#include <fcntl.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount/change_propagation.h"
#include "mounter/mount/filesystem_context.h"
#include "mounter/mount/memory_mount.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"
#include "mounter/table/known_memory.h"
#include "mounter/table/mount_table.h"

namespace mooring {
namespace {

struct Filesystem {
  std::string type;
  bool lazytime;
};

// A tmpfs writes no times.
absl::StatusOr<Filesystem> FilesystemOf(const UniqueFd& mount, const std::string& path) {
  if (RecallMemory(mount)) return Filesystem{std::string(kMemoryFsType), false};
  MOORING_ASSIGN_OR_RETURN(ListedMount info, LookUpMountOf(mount, path));
  return Filesystem{std::move(info.fs_type), info.lazytime};
}

}  // namespace

absl::Status KernelMounter::Change(const ChangeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (!status.mount_root) return FailedPrecondition("nothing is mounted at {}", Quote(request.target));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd mount, OpenNoSymlinks(request.target, O_PATH));
  MOORING_RETURN_IF_ERROR(sources_.CheckBindSource(mount, request.target));
  // The filesystem may refuse its options, so they come first: after a failure nothing has changed.
  if (!request.options.empty()) {
    MOORING_RETURN_IF_ERROR(sources_.CheckFilesystem(mount, request.target));
    MOORING_ASSIGN_OR_RETURN(const Filesystem filesystem, FilesystemOf(mount, request.target));
    MOORING_RETURN_IF_ERROR(CheckFilesystemOptions(filesystem.type, request.options));
    const std::string what = fmt::format("change the filesystem at {}", Quote(request.target));
    MOORING_RETURN_IF_ERROR(
        Annotate(ChangeFilesystem(mount, request.target, filesystem.lazytime, request.options), what));
  }
  const std::string what = fmt::format("change the mount at {}", Quote(request.target));
  if (request.flags) MOORING_RETURN_IF_ERROR(Annotate(SetMountFlags(mount, *request.flags), what));
  if (request.propagation == Propagation::kInherit) return absl::OkStatus();
  return Annotate(SetMountPropagation(mount, request.propagation, false), what);
}

}  // namespace mooring
