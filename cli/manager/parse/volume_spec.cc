#include "cli/manager/parse/volume_spec.h"

#include <string>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "cli/mounts/paths.h"

namespace mooring::cli::manager_area {
namespace {

constexpr char kDefaultAccess[] = "single-node-writer";

absl::StatusOr<v1::Capability> CapabilityFor(const std::string& access, bool block) {
  v1::Capability capability;
  MOORING_ASSIGN_OR_RETURN(const v1::AccessMode mode, ParseAccessMode(access));
  capability.set_access(mode);
  capability.set_attachment(block ? v1::BLOCK_DEVICE : v1::FILE_SYSTEM);
  return capability;
}

// --block without --access means the default access mode.
absl::Status AddCapabilities(const Arguments& arguments, v1::Volume& volume) {
  std::vector<std::string> modes = arguments.access;
  if (modes.empty() && arguments.block) modes.emplace_back(kDefaultAccess);
  for (const std::string& mode : modes) {
    MOORING_ASSIGN_OR_RETURN(*volume.add_capabilities(), CapabilityFor(mode, arguments.block));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Volume> OfFlags(const Arguments& arguments) {
  v1::Volume volume;
  if (!arguments.id.empty() || !arguments.ns.empty()) *volume.mutable_key() = KeyOf(arguments);
  volume.set_name(arguments.name);
  volume.set_external_id(arguments.external_id);
  volume.set_plugin(arguments.plugin);
  volume.set_snapshot_id(arguments.from_snapshot);
  volume.set_min_bytes(static_cast<std::uint64_t>(arguments.size.value_or(0)));
  volume.set_max_bytes(static_cast<std::uint64_t>(arguments.limit.value_or(0)));
  AddSegments(arguments.topologies, *volume.mutable_required_topologies());
  AddSegments(arguments.preferred_topologies, *volume.mutable_preferred_topologies());
  Fill(arguments.parameters, *volume.mutable_parameters());
  Fill(arguments.context, *volume.mutable_context());
  MOORING_RETURN_IF_ERROR(AddCapabilities(arguments, volume));
  MOORING_ASSIGN_OR_RETURN(const v1::MountOptions options, MountOptionsOf(arguments));
  if (options.ByteSizeLong() > 0) *volume.mutable_mount_options() = options;
  return volume;
}

// Clears the lists of `now` that `described` has: MergeFrom would append to them.
void ClearLists(google::protobuf::Message& now, const google::protobuf::Message& described) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  described.GetReflection()->ListFields(described, &fields);
  const google::protobuf::Reflection& reflection = *now.GetReflection();
  for (const auto* field : fields) {
    if (field->is_repeated()) {
      reflection.ClearField(&now, field);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      ClearLists(*reflection.MutableMessage(&now, field), reflection.GetMessage(described, field));
    }
  }
}

}  // namespace

v1::VolumeKey KeyOf(const Arguments& arguments) {
  v1::VolumeKey key;
  key.set_namespace_(arguments.ns);
  key.set_id(arguments.per_alloc ? PerAllocId(arguments.id, *arguments.per_alloc) : arguments.id);
  return key;
}

absl::StatusOr<v1::Volume> VolumeOf(const Arguments& arguments) {
  MOORING_ASSIGN_OR_RETURN(const v1::Volume flags, OfFlags(arguments));
  v1::Volume volume = arguments.described;
  Overlay(volume, flags);
  if (volume.key().id().empty()) return InvalidArgument("no volume is named: give its ID, or a --file with an ID");
  return volume;
}

void Overlay(google::protobuf::Message& now, const google::protobuf::Message& described) {
  ClearLists(now, described);
  now.MergeFrom(described);
}

void SetDefaultCapability(v1::Volume& volume) {
  if (volume.capabilities_size() > 0) return;
  v1::Capability& capability = *volume.add_capabilities();
  capability.set_access(v1::SINGLE_NODE_WRITER);
  capability.set_attachment(v1::FILE_SYSTEM);
}

absl::StatusOr<std::optional<v1::Capability>> CapabilityOf(const Arguments& arguments) {
  if (arguments.access.size() > 1) {
    return InvalidArgument("--access is given more than once: this command takes one mode");
  }
  if (arguments.access.empty() && !arguments.block) return std::optional<v1::Capability>();
  if (arguments.access.empty()) return InvalidArgument("--block needs an access mode: give --access");
  return CapabilityFor(arguments.access.front(), arguments.block);
}

absl::StatusOr<v1::MountOptions> MountOptionsOf(const Arguments& arguments) {
  const bool given = !arguments.fs_type.empty() || !arguments.mount_flags.empty();
  if (given && arguments.block) {
    return InvalidArgument("--block is a raw device: leave out --fs-type and --mount-flag");
  }
  v1::MountOptions options;
  options.set_fs_type(arguments.fs_type);
  options.mutable_flags()->Assign(arguments.mount_flags.begin(), arguments.mount_flags.end());
  return options;
}

bool NamesJob(const Arguments& arguments) { return arguments.per_alloc || arguments.tasks > 0 || arguments.system_job; }

void FillJob(const Arguments& arguments, v1::Job& job) {
  job.set_per_alloc(arguments.per_alloc.has_value());
  job.set_system(arguments.system_job);
  job.set_tasks(arguments.tasks);
}

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
