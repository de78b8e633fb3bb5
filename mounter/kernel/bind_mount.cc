#include <fcntl.h>

#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/conditions.h"
#include "mounter/kernel/inspect.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount/id_map.h"
#include "mounter/mount/new_mount.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

absl::Status BindChecked(const BindRequest& request, const UniqueFd& source, const Target& target) {
  // Owner and group need a writable copy. The source may be mounted read-only on a writable filesystem.
  const bool owner = request.group || request.new_root;
  MountFlags flags = request.flags;
  if (owner) flags.read_only = false;
  MOORING_ASSIGN_OR_RETURN(NewMount copy, BindMount(source, request.source, request.target_kind, flags,
                                                    request.propagation, request.recursive));
  if (owner) MOORING_RETURN_IF_ERROR(copy.Set({}, Propagation::kInherit, false));
  if (request.new_root) MOORING_RETURN_IF_ERROR(copy.SetNewRoot(*request.new_root));
  if (request.group) MOORING_RETURN_IF_ERROR(copy.SetGroup(*request.group));
  MOORING_RETURN_IF_ERROR(copy.Set(request.flags, Propagation::kInherit, request.recursive));
  if (DeadlineScope::HasPassed()) {
    return absl::DeadlineExceededError("binding " + Quote(request.source) + " took too long: nothing was mounted");
  }
  MOORING_ASSIGN_OR_RETURN(NewMount complete, WithIds(std::move(copy), request.idmap, request.recursive));
  return Attach(std::move(complete), target, request.target_kind, request.propagation, request.recursive);
}

}  // namespace

absl::Status KernelMounter::Bind(const BindRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, roots_));
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(target));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd source, OpenNoSymlinks(request.source, O_PATH));
  MOORING_RETURN_IF_ERROR(sources_.CheckBindSource(source, request.source));
  MOORING_RETURN_IF_ERROR(sources_.HandToTasks(source, request.source));
  return BindChecked(request, source, target);
}

// The mount that is inspected is the one that is bound: both go through the same descriptor.
absl::StatusOr<bool> KernelMounter::BindIf(const ConditionalBind& request) {
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.bind.target, roots_));
  MOORING_RETURN_IF_ERROR(targets_.CheckTarget(target));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.mount_root) return false;
  const absl::StatusOr<Target> source = Target::OfDirectory(request.bind.source);
  if (absl::IsNotFound(source.status())) return false;
  MOORING_RETURN_IF_ERROR(source.status());
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Inspect(*source, sources_));
  const std::optional<BindRequest> bind = BindOf(request, info);
  if (!bind) return false;
  MOORING_RETURN_IF_ERROR(CheckInTime(bind->target));
  const UniqueFd& directory = source->directory();
  MOORING_RETURN_IF_ERROR(sources_.CheckInspectedSource(directory, bind->source, info));
  MOORING_RETURN_IF_ERROR(sources_.HandToTasks(directory, bind->source));
  MOORING_RETURN_IF_ERROR(BindChecked(*bind, directory, target));
  return true;
}

}  // namespace mooring
