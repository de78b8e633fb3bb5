#include <fmt/format.h>

#include "base/path.h"
#include "base/quote.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/key_values.h"
#include "cli/mounts/arguments.h"
#include "cli/mounts/paths.h"
#include "cli/text.h"
#include "mounter/kernel_mounter.h"
#include "mounter/mount_graph.h"
#include "mounter/other_namespace.h"

namespace mooring::cli::mounts_area {
namespace {

// Of a mount that is still there: why it would not go.
std::string Advice(const NamespaceView& view, const std::string& target) {
  if (MountAtPath(view, target) == nullptr) return "";
  std::vector<std::string> below;
  for (const TableMount& mount : view.mounts) {
    if (mount.target != target && IsBelow(mount.target, target)) below.push_back(Quote(mount.target));
  }
  if (!below.empty()) return fmt::format("; other mounts stand below it, unmount them first: {}", Join(below, ", "));
  return fmt::format("; who uses it: fuser -vm {}", ShellQuote(target));
}

absl::Status WithAdvice(const absl::Status& status, const absl::StatusOr<NamespaceView>& view,
                        const std::string& target) {
  if (status.ok() || !view.ok()) return status;
  const std::string message = Message(status) + Advice(*view, target);
  return absl::Status(status.code(), message);
}

absl::Status UnmountAt(const Arguments& arguments, const UnmountRequest& request) {
  // Asked for before: afterwards this process may be where its own /proc is not.
  const absl::StatusOr<NamespaceView> view = ViewOf(arguments.pid == 0 ? ::getpid() : arguments.pid);
  if (arguments.pid == 0) return WithAdvice(KernelMounter().Unmount(request), view, request.target);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd there, OpenMountNamespace(arguments.pid));
  return WithAdvice(UnmountIn(there, request), view, request.target);
}

}  // namespace

absl::StatusOr<Answer> Unmount(const Arguments& arguments, std::ostream&) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  UnmountRequest request;
  MOORING_ASSIGN_OR_RETURN(request.target,
                           arguments.pid == 0 ? ResolvePath(arguments.target) : PathElsewhere(arguments.target));
  request.remove_target = arguments.remove;
  MOORING_RETURN_IF_ERROR(UnmountAt(arguments, request));
  return Answer{fmt::format("unmounted {}\n", Visible(request.target)),
                JsonObject().Add("unmounted", request.target).ToString()};
}

}  // namespace mooring::cli::mounts_area
