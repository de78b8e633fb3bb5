#include "cli/manager/parse/attach_request.h"

#include "base/file/path.h"
#include "base/status.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/mounts/paths.h"

namespace mooring::cli::manager_area {

absl::StatusOr<v1::AttachRequest> AttachRequestOf(const Arguments& arguments) {
  if (arguments.allocation.empty()) return InvalidArgument("no allocation is named: give --for ALLOCATION");
  v1::AttachRequest request;
  *request.mutable_volume() = KeyOf(arguments);
  request.set_allocation(arguments.allocation);
  request.set_request(arguments.request);
  request.set_read_only(arguments.read_only);
  MOORING_ASSIGN_OR_RETURN(const v1::ClaimMode mode, ParseClaimMode(arguments.mode));
  request.set_mode(mode);
  MOORING_ASSIGN_OR_RETURN(const v1::Propagation propagation, ParsePropagation(arguments.propagation));
  request.set_propagation(propagation);
  MOORING_ASSIGN_OR_RETURN(const auto capability, CapabilityOf(arguments));
  if (capability) *request.mutable_capability() = *capability;
  MOORING_ASSIGN_OR_RETURN(const v1::MountOptions options, MountOptionsOf(arguments));
  if (options.ByteSizeLong() > 0) *request.mutable_options() = options;
  if (!arguments.path.empty()) {
    MOORING_ASSIGN_OR_RETURN(*request.mutable_attach_path(), mounts_area::ResolvePath(arguments.path));
  }
  if (NamesJob(arguments)) FillJob(arguments, *request.mutable_job());
  return request;
}

absl::StatusOr<v1::DetachRequest> DetachRequestOf(const Arguments& arguments) {
  v1::DetachRequest request;
  if (!arguments.allocation.empty()) {
    request.set_allocation(arguments.allocation);
    request.set_request(arguments.path);
    return request;
  }
  const absl::StatusOr<std::string> resolved = mounts_area::ResolvePath(arguments.path);
  if (!resolved.ok() && !arguments.path.starts_with('/')) return resolved.status();
  // The manager says that nothing is attached at a path that does not exist. ResolvePath would advise to create it.
  MOORING_ASSIGN_OR_RETURN(*request.mutable_attach_path(),
                           resolved.ok() ? resolved : NormalisePath("the path to detach", arguments.path));
  return request;
}

}  // namespace mooring::cli::manager_area
