#include <string_view>
#include <variant>

#include "base/status.h"
#include "cli/csi/command.h"
#include "cli/flags/flag_values.h"
#include "csi.pb.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::VolumeCapability;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Capabilities = std::vector<VolumeCapability>;

constexpr std::string_view kDefaultAccess = "single-node-writer";

struct Field {
  const char* name;
  std::variant<std::string Arguments::*, std::vector<std::string> Arguments::*, bool Arguments::*,
               std::int32_t Arguments::*, Offset Arguments::*, KeyValues Arguments::*, Secrets Arguments::*>
      member;
};

// A field of this name is filled from this member, in each request that has it.
constexpr Field kFields[] = {
    {"name", &Arguments::name},
    {"volume_id", &Arguments::id},
    {"snapshot_id", &Arguments::id},
    {"base_snapshot_id", &Arguments::id},
    {"target_snapshot_id", &Arguments::target},
    {"group_snapshot_id", &Arguments::id},
    {"source_volume_id", &Arguments::from_volume},
    {"source_volume_ids", &Arguments::volumes},
    {"snapshot_ids", &Arguments::snapshots},
    {"node_id", &Arguments::node},
    {"staging_target_path", &Arguments::staging_path},
    {"target_path", &Arguments::target_path},
    {"volume_path", &Arguments::volume_path},
    {"readonly", &Arguments::read_only},
    {"parameters", &Arguments::parameters},
    {"mutable_parameters", &Arguments::mutable_parameters},
    {"volume_context", &Arguments::volume_context},
    {"publish_context", &Arguments::publish_context},
    {"secrets", &Arguments::secrets},
    {"max_entries", &Arguments::max_entries},
    {"max_results", &Arguments::max_entries},
    {"starting_token", &Arguments::token},
    {"starting_offset", &Arguments::offset},
};

// Sets one field. Each overload is for one type of member.
class FieldSetter {
 public:
  FieldSetter(const Arguments& arguments, Message& request, const FieldDescriptor* field)
      : arguments_(arguments), request_(request), reflection_(*request.GetReflection()), field_(field) {}

  void operator()(std::string Arguments::*member) const {
    reflection_.SetString(&request_, field_, arguments_.*member);
  }
  void operator()(std::vector<std::string> Arguments::*member) const {
    for (const std::string& text : arguments_.*member) reflection_.AddString(&request_, field_, text);
  }
  void operator()(bool Arguments::*member) const { reflection_.SetBool(&request_, field_, arguments_.*member); }
  void operator()(std::int32_t Arguments::*member) const {
    reflection_.SetInt32(&request_, field_, arguments_.*member);
  }
  void operator()(Offset Arguments::*member) const {
    reflection_.SetInt64(&request_, field_, (arguments_.*member).bytes);
  }
  void operator()(KeyValues Arguments::*member) const { AddEntries(arguments_.*member); }
  void operator()(Secrets Arguments::*member) const {
    StringMap secrets;
    (arguments_.*member).CopyTo(secrets);
    AddEntries(secrets);
  }

 private:
  template <typename Map>
  void AddEntries(const Map& pairs) const {
    for (const auto& [key, value] : pairs) {
      Message& entry = *reflection_.AddMessage(&request_, field_);
      entry.GetReflection()->SetString(&entry, entry.GetDescriptor()->map_key(), key);
      entry.GetReflection()->SetString(&entry, entry.GetDescriptor()->map_value(), value);
    }
  }

  const Arguments& arguments_;
  Message& request_;
  const google::protobuf::Reflection& reflection_;
  const FieldDescriptor* field_;
};

const FieldDescriptor* FindField(const Message& message, const char* name) {
  return message.GetDescriptor()->FindFieldByName(name);
}

bool HasMountFlags(const Arguments& arguments) {
  return !arguments.fs_type.empty() || !arguments.mount_flags.empty() || !arguments.mount_group.empty();
}

absl::StatusOr<VolumeCapability> CapabilityOf(const Arguments& arguments, std::string_view access) {
  MOORING_ASSIGN_OR_RETURN(const int mode,
                           ParseEnumWord(*VolumeCapability::AccessMode::Mode_descriptor(), access, "access mode"));
  VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(static_cast<VolumeCapability::AccessMode::Mode>(mode));
  if (arguments.block) {
    capability.mutable_block();
    return capability;
  }
  VolumeCapability::MountVolume& mount = *capability.mutable_mount();
  mount.set_fs_type(arguments.fs_type);
  mount.mutable_mount_flags()->Assign(arguments.mount_flags.begin(), arguments.mount_flags.end());
  mount.set_volume_mount_group(arguments.mount_group);
  return capability;
}

// Makes a capability for each --access.
absl::StatusOr<Capabilities> CapabilitiesOf(const Arguments& arguments) {
  if (arguments.block && HasMountFlags(arguments)) {
    return InvalidArgument("--block is a raw device: leave out --fs-type, --mount-flag and --mount-group");
  }
  Capabilities capabilities;
  for (const std::string& access : arguments.access) {
    MOORING_ASSIGN_OR_RETURN(capabilities.emplace_back(), CapabilityOf(arguments, access));
  }
  if (capabilities.empty()) {
    MOORING_ASSIGN_OR_RETURN(capabilities.emplace_back(), CapabilityOf(arguments, kDefaultAccess));
  }
  return capabilities;
}

// CSI 1.12: a capability is optional when a volume is expanded, and when the capacity is asked.
bool NeedsCapability(const Message& request) {
  const std::string& name = request.GetDescriptor()->name();
  return !name.ends_with("ExpandVolumeRequest") && name != "GetCapacityRequest";
}

absl::Status FillCapabilities(const Arguments& arguments, Message& request) {
  const FieldDescriptor* const one = FindField(request, "volume_capability");
  const FieldDescriptor* const several = FindField(request, "volume_capabilities");
  const bool given = arguments.block || !arguments.access.empty() || HasMountFlags(arguments);
  if ((one == nullptr && several == nullptr) || !(given || NeedsCapability(request))) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Capabilities capabilities, CapabilitiesOf(arguments));
  if (one != nullptr && capabilities.size() > 1) {
    return InvalidArgument("--access is given more than once: this command takes one mode");
  }
  const google::protobuf::Reflection& reflection = *request.GetReflection();
  for (const VolumeCapability& capability : capabilities) {
    Message* const slot =
        one != nullptr ? reflection.MutableMessage(&request, one) : reflection.AddMessage(&request, several);
    slot->CopyFrom(capability);
  }
  return absl::OkStatus();
}

void FillCapacity(const Arguments& arguments, Message& request) {
  const FieldDescriptor* const field = FindField(request, "capacity_range");
  if (field == nullptr || !(arguments.size || arguments.limit)) return;
  csi::v1::CapacityRange range;
  range.set_required_bytes(arguments.size.value_or(0));
  range.set_limit_bytes(arguments.limit.value_or(0));
  request.GetReflection()->MutableMessage(&request, field)->CopyFrom(range);
}

}  // namespace

absl::Status FillRequest(const Arguments& arguments, Message& request) {
  for (const Field& row : kFields) {
    const FieldDescriptor* const field = FindField(request, row.name);
    if (field != nullptr) std::visit(FieldSetter(arguments, request, field), row.member);
  }
  FillCapacity(arguments, request);
  return FillCapabilities(arguments, request);
}

}  // namespace mooring::cli::csi_area
