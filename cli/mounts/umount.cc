#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/flags/flag_values.h"
#include "cli/mounts/arguments.h"
#include "cli/mounts/mount_graph.h"
#include "cli/mounts/other_namespace.h"
#include "cli/mounts/paths.h"
#include "cli/output/output.h"
#include "mounter/kernel/kernel_mounter.h"

namespace mooring::cli::mounts_area {
namespace {

// The advice for a mount that could not be unmounted.
std::string Advice(const NamespaceView& view, pid_t pid, const std::string& target) {
  if (MountAtPath(view, target) == nullptr) return "";
  std::vector<std::string> below;
  for (const TableMount& mount : view.mounts) {
    if (mount.target != target && IsBelow(mount.target, target)) below.push_back(Quote(mount.target));
  }
  if (!below.empty()) return fmt::format("; unmount the mounts below it first: {}", Join(below, ", "));
  return fmt::format("; find the processes that use it: fuser -vm {}", ShellQuote(PathFromHere(pid, target)));
}

absl::Status WithAdvice(const absl::Status& status, const NamespaceView& view, pid_t pid, const std::string& target) {
  if (status.ok()) return status;
  const std::string message = Message(status) + Advice(view, pid, target);
  return absl::Status(status.code(), message);
}

std::size_t CountAt(const NamespaceView& view, const std::string& target) {
  return static_cast<std::size_t>(std::count_if(view.mounts.begin(), view.mounts.end(),
                                                [&](const TableMount& mount) { return mount.target == target; }));
}

// umount2(2) gives EINVAL for a path that is not a mount and for a locked mount, and UnmountIn treats both as done. The
// table of mounts tells them apart, if no other process has changed it meanwhile.
absl::Status CheckGone(const NamespaceView& before, pid_t pid, const std::string& target) {
  if (MountAtPath(before, target) == nullptr) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const NamespaceView now, ViewOf(pid));
  const TableMount* was = MountAtPath(before, target);
  const TableMount* is = MountAtPath(now, target);
  if (is == nullptr || is->id != was->id || CountAt(now, target) < CountAt(before, target)) return absl::OkStatus();
  return FailedPrecondition(
      "the mount at {} in the namespace of process {} is locked: it belongs to a more privileged mount namespace, from "
      "which this one was copied, and ends with that process",
      Quote(target), pid);
}

absl::Status UnmountElsewhere(const NamespaceView& view, pid_t pid, const UnmountRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd there, OpenMountNamespace(pid));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd here, OpenMountNamespace(0));
  const absl::Status status = UnmountIn(there, request);
  MOORING_RETURN_IF_ERROR(EnterMountNamespace(here));  // to read the /proc of this namespace
  MOORING_RETURN_IF_ERROR(WithAdvice(status, view, pid, request.target));
  return CheckGone(view, pid, request.target);
}

// Whether a mount was there.
absl::StatusOr<bool> UnmountAt(const Arguments& arguments, const UnmountRequest& request) {
  const absl::StatusOr<NamespaceView> view = ViewOf(arguments.pid);
  if (!view.ok()) return view.status();
  if (arguments.pid == 0) {
    MOORING_RETURN_IF_ERROR(WithAdvice(KernelMounter().Unmount(request), *view, 0, request.target));
  } else {
    MOORING_RETURN_IF_ERROR(UnmountElsewhere(*view, arguments.pid, request));
  }
  return MountAtPath(*view, request.target) != nullptr;
}

}  // namespace

absl::StatusOr<Answer> Unmount(const Arguments& arguments, std::ostream&) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  UnmountRequest request;
  MOORING_ASSIGN_OR_RETURN(request.target, ResolvePathIn(arguments.pid, arguments.target));
  request.remove_target = arguments.remove;
  MOORING_ASSIGN_OR_RETURN(const bool mounted, UnmountAt(arguments, request));
  if (!mounted && !arguments.if_exists && !arguments.remove) {
    return NotFound("nothing is mounted at {}; 'mooring list' shows what is mounted", Quote(request.target));
  }
  const char* const format = mounted ? "unmounted {}\n" : "nothing was mounted at {}\n";
  return Answer{fmt::format(fmt::runtime(format), Visible(request.target)),
                JsonObject().Add("unmounted", request.target).AddBool("mounted", mounted).ToString()};
}

}  // namespace mooring::cli::mounts_area
