#include "manager/api/answers.h"

#include <chrono>
#include <utility>

#include "manager/records/record_codec.h"

namespace mooring::manager {
namespace {

std::int64_t Milliseconds(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

// With the names that CSI gives the capabilities.
constexpr std::pair<bool PluginTraits::*, const char*> kCapabilities[] = {
    {&PluginTraits::controller_service, "CONTROLLER_SERVICE"},
    {&PluginTraits::group_controller_service, "GROUP_CONTROLLER_SERVICE"},
    {&PluginTraits::topology, "VOLUME_ACCESSIBILITY_CONSTRAINTS"},
    {&PluginTraits::expands_online, "VOLUME_EXPANSION_ONLINE"},
    {&PluginTraits::expands_offline, "VOLUME_EXPANSION_OFFLINE"},
    {&PluginTraits::stages, "STAGE_UNSTAGE_VOLUME"},
    {&PluginTraits::node_expands, "NODE_EXPAND_VOLUME"},
    {&PluginTraits::node_stats, "GET_VOLUME_STATS"},
    {&PluginTraits::node_condition, "VOLUME_CONDITION"},
    {&PluginTraits::node_single_writer, "NODE_SINGLE_NODE_MULTI_WRITER"},
    {&PluginTraits::creates, "CREATE_DELETE_VOLUME"},
    {&PluginTraits::publishes, "PUBLISH_UNPUBLISH_VOLUME"},
    {&PluginTraits::publishes_read_only, "PUBLISH_READONLY"},
    {&PluginTraits::lists, "LIST_VOLUMES"},
    {&PluginTraits::snapshots, "CREATE_DELETE_SNAPSHOT"},
    {&PluginTraits::lists_snapshots, "LIST_SNAPSHOTS"},
    {&PluginTraits::clones, "CLONE_VOLUME"},
    {&PluginTraits::controller_expands, "EXPAND_VOLUME"},
    {&PluginTraits::controller_single_writer, "SINGLE_NODE_MULTI_WRITER"},
};

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
  for (const auto& [trait, name] : kCapabilities) {
    if (fingerprint.traits.*trait) shown.add_capabilities(name);
  }
  if (fingerprint.at != Time()) shown.set_checked_at_ms(Milliseconds(fingerprint.at));
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
  shown.set_mount_flags(shown.mount_options().flags_size());
  if (shown.has_mount_options()) shown.mutable_mount_options()->clear_flags();
  return shown;
}

v1::Attachment Shown(const AttachmentRecord& mount) {
  v1::Attachment shown = ToProto(mount);
  if (shown.has_options()) shown.mutable_options()->clear_flags();
  if (shown.has_staged_options()) shown.mutable_staged_options()->clear_flags();
  return shown;
}

v1::Snapshot Shown(const Snapshot& snapshot) {
  v1::Snapshot shown;
  shown.set_id(snapshot.id);
  shown.set_plugin(snapshot.plugin);
  shown.set_source_volume_id(snapshot.source_volume_id);
  if (snapshot.source) *shown.mutable_source() = ToProto(*snapshot.source);
  shown.set_bytes(snapshot.bytes);
  if (snapshot.made_at != Time()) shown.set_made_at_ms(Milliseconds(snapshot.made_at));
  shown.set_ready(snapshot.ready);
  return shown;
}

v1::Event Shown(const Event& event) {
  v1::Event shown;
  shown.set_number(event.number);
  shown.set_time_ms(Milliseconds(event.time));
  shown.set_bad(event.bad);
  shown.set_kind(event.kind);
  shown.set_plugin(event.plugin);
  shown.set_instance(event.instance);
  if (event.volume) *shown.mutable_volume() = ToProto(*event.volume);
  shown.set_allocation(event.allocation);
  shown.set_text(event.text);
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
