#include "manager/api/answers.h"

#include <utility>

#include "manager/records/field_copier.h"
#include "manager/records/record_codec.h"

namespace mooring::manager {
namespace {

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
