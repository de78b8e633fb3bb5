#include "manager/api/messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "manager/records/field_copier.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

bool Allows(const Capability& capability, ClaimMode mode) {
  return mode == ClaimMode::kRead || !IsReader(capability.access);
}

TaskRequest TaskOf(const v1::Job& job, ClaimMode mode, const Capability& capability) {
  TaskRequest task;
  task.mode = mode;
  task.capability = capability;
  task.per_alloc = job.per_alloc();
  task.system_job = job.system();
  task.tasks = std::max(job.tasks(), 1);
  return task;
}

v1::InstanceStatus ShownInstance(const InstanceStatus& status) {
  v1::InstanceStatus shown;
  *shown.mutable_instance() = ToProto(status.instance);
  shown.set_front(status.front);
  const Fingerprint& fingerprint = status.fingerprint;
  shown.set_healthy(fingerprint.healthy);
  shown.set_words(fingerprint.problem);
  shown.set_driver_name(fingerprint.driver_name);
  shown.set_vendor_version(fingerprint.vendor_version);
  shown.set_node_id(fingerprint.node_id);
  for (std::string& name : CapabilityNames(fingerprint.traits)) shown.add_capabilities(std::move(name));
  if (fingerprint.at != Time()) shown.set_checked_at_ms(ToMs(fingerprint.at));
  return shown;
}

v1::RoleCount ShownCount(const RoleCount& count) {
  v1::RoleCount shown;
  shown.set_healthy(count.healthy);
  shown.set_expected(count.expected);
  return shown;
}

}  // namespace

absl::StatusOr<VolumeKey> KeyOf(const v1::VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(VolumeKey result, FromProto(key));
  MOORING_RETURN_IF_ERROR(CheckName("the namespace", result.ns));
  MOORING_RETURN_IF_ERROR(CheckName("the volume's id", result.id));
  return result;
}

absl::StatusOr<Volume> AskedVolume(const v1::Volume& message, const StringMap& secrets) {
  MOORING_ASSIGN_OR_RETURN(Volume volume, FromProto(message));
  volume.secrets = Secrets(secrets);
  volume.has_secrets = false;
  volume.flags_left_out = 0;
  volume.state = Volume::State::kReady;
  volume.created_here = false;
  volume.in_use.reset();
  volume.exhausted_at.reset();
  volume.exhausted_host.clear();
  volume.exhausted_words.clear();
  volume.node_expansion_owed = false;
  volume.revisions = {0, message.modify_revision()};
  return volume;
}

absl::StatusOr<Capability> ChooseCapability(const Volume& volume, const v1::Capability* asked, ClaimMode mode) {
  // The claim checks whether the volume has it.
  if (asked != nullptr && asked->access() != v1::ACCESS_MODE_UNSPECIFIED) return FromProto(*asked);
  AttachmentMode attachment = AttachmentMode::kFileSystem;
  if (asked != nullptr && asked->attachment() != v1::ATTACHMENT_MODE_UNSPECIFIED) {
    MOORING_ASSIGN_OR_RETURN(attachment, FromProto(asked->attachment()));
  }
  const auto fits = [&](const Capability& one) {
    return Allows(one, mode) && (asked == nullptr || one.attachment == attachment);
  };
  const auto found = std::find_if(volume.capabilities.begin(), volume.capabilities.end(), fits);
  if (found != volume.capabilities.end()) return *found;
  return InvalidArgument(
      "the volume {} has no capability for a claim to {}: name a capability that it has, or register it with one",
      ToString(volume.key), ToString(mode));
}

absl::StatusOr<ClaimRequest> ParseClaim(const v1::ClaimVolumeRequest& message, const Volume& volume,
                                        const std::string& host) {
  ClaimRequest request;
  request.volume = volume.key;
  request.allocation = message.allocation();
  request.node = host;
  request.external_node_id = message.external_node_id();
  MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation));
  MOORING_ASSIGN_OR_RETURN(request.mode, FromProto(message.mode()));
  const v1::Capability* const asked = message.has_capability() ? &message.capability() : nullptr;
  MOORING_ASSIGN_OR_RETURN(request.capability, ChooseCapability(volume, asked, request.mode));
  TaskRequest task = TaskOf(message.job(), request.mode, request.capability);
  task.read_only = request.mode == ClaimMode::kRead;
  MOORING_RETURN_IF_ERROR(CheckTaskRequest(task));
  return request;
}

absl::StatusOr<AttachRequest> ParseAttach(const v1::AttachRequest& message, const Volume& volume) {
  AttachRequest request;
  request.volume = volume.key;
  request.plugin = volume.plugin;
  request.allocation = message.allocation();
  MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation));
  request.request = message.request().empty() ? volume.key.id : message.request();
  MOORING_RETURN_IF_ERROR(CheckName("the name of the request", request.request));
  request.mode = message.read_only() ? ClaimMode::kRead : ClaimMode::kWrite;
  if (message.mode() != v1::CLAIM_MODE_UNSPECIFIED) {
    MOORING_ASSIGN_OR_RETURN(request.mode, FromProto(message.mode()));
  }
  request.read_only = message.read_only() || request.mode == ClaimMode::kRead;
  const v1::Capability* const asked = message.has_capability() ? &message.capability() : nullptr;
  MOORING_ASSIGN_OR_RETURN(request.capability, ChooseCapability(volume, asked, request.mode));
  MOORING_ASSIGN_OR_RETURN(request.options, FromProto(message.options()));
  MOORING_ASSIGN_OR_RETURN(request.propagation, FromProto(message.propagation()));
  MOORING_RETURN_IF_ERROR(CheckPropagation(request.propagation, request.read_only));
  request.until_reboot = message.until_reboot();
  if (!message.attach_path().empty()) {
    MOORING_ASSIGN_OR_RETURN(request.attach_path, NormalisePath("the path to attach at", message.attach_path()));
  }
  TaskRequest task = TaskOf(message.job(), request.mode, request.capability);
  task.read_only = request.read_only;
  task.has_mount_options = !(request.options == MountOptions());
  MOORING_RETURN_IF_ERROR(CheckTaskRequest(task));
  return request;
}

absl::StatusOr<PluginRecord::Run> ParseRun(const v1::PluginRun& message) {
  MOORING_ASSIGN_OR_RETURN(PluginRecord::Run run, FromProto(message));
  if (run.engine.empty()) return run;
  MOORING_ASSIGN_OR_RETURN(const std::string socket, ParseSocketPath(run.engine));
  MOORING_ASSIGN_OR_RETURN(run.engine, NormalisePath("the engine's socket", socket));
  return run;
}

v1::Volume Shown(const Volume& volume) {
  v1::Volume shown = ToProto(volume);
  shown.set_mount_flags(shown.mount_options().flags_size() + volume.flags_left_out);
  if (shown.has_mount_options()) shown.mutable_mount_options()->clear_flags();
  return shown;
}

v1::Attachment Shown(const AttachmentRecord& mount) {
  v1::Attachment shown = ToProto(mount);
  if (shown.has_options()) shown.mutable_options()->clear_flags();
  if (shown.has_staged_as()) shown.mutable_staged_as()->mutable_options()->clear_flags();
  return shown;
}

v1::PluginStatus Shown(const PluginStatus& status) {
  v1::PluginStatus shown;
  shown.set_name(status.name);
  *shown.mutable_nodes() = ShownCount(status.nodes);
  *shown.mutable_controllers() = ShownCount(status.controllers);
  shown.set_controller_required(status.controller_required);
  for (const InstanceStatus& instance : status.instances) *shown.add_instances() = ShownInstance(instance);
  return shown;
}

}  // namespace mooring::manager
