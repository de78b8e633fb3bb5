// Records with a different value in each field, so that a test finds a field that is lost.
#pragma once

#include <string>

#include "manager/records/events.h"
#include "manager/records/records.h"

namespace mooring::manager::samples {

inline constexpr char kSecret[] = "hunter2";

inline Time SampleTime(int seconds) { return Time(std::chrono::seconds(1'700'000'000 + seconds)); }

inline Volume SampleVolume(const std::string& id = "db[3]") {
  Volume volume;
  volume.key = {.ns = "prod", .id = id};
  volume.name = "db-3";
  volume.external_id = "vol-4711";
  volume.plugin = "mooring.csi";
  volume.capabilities = {{AccessMode::kSingleNodeWriter, AttachmentMode::kFileSystem},
                         {AccessMode::kMultiNodeReaderOnly, AttachmentMode::kBlockDevice}};
  volume.mount_options = {.fs_type = "ext4", .flags = {"noatime", "barrier=0"}};
  volume.secrets = Secrets(StringMap{{"password", kSecret}});
  volume.has_secrets = true;
  volume.parameters = {{"pool", "ssd"}};
  volume.context = {{"share", "7"}};
  volume.required_topologies = {{.segments = {{"zone", "a"}}}, {.segments = {{"zone", "b"}}}};
  volume.preferred_topologies = {{.segments = {{"zone", "b"}}}};
  volume.topologies = {{.segments = {{"zone", "c"}, {"rack", "1"}}}};
  volume.min_bytes = 1;
  volume.max_bytes = 1ULL << 40U;
  volume.capacity_bytes = 1ULL << 30U;
  volume.snapshot_id = "snap-1";
  volume.clone_id = "vol-1";
  volume.state = Volume::State::kDeleting;
  volume.worker = "host-1";
  volume.created_here = true;
  volume.in_use = Capability{AccessMode::kMultiNodeMultiWriter, AttachmentMode::kBlockDevice};
  volume.node_expansion_owed = true;
  volume.exhausted_at = SampleTime(1);
  volume.exhausted_host = "host-2";
  volume.exhausted_words = "no more attachments";
  volume.created_at = SampleTime(9);
  return volume;
}

inline Snapshot SampleSnapshot() {
  Snapshot snapshot;
  snapshot.plugin = "mooring.csi";
  snapshot.name = "nightly";
  snapshot.id = "snap-4711";
  snapshot.source = VolumeKey{.ns = "prod", .id = "db[3]"};
  snapshot.source_volume_id = "vol-4711";
  snapshot.parameters = {{"kind", "full"}};
  snapshot.topologies = {{.segments = {{"zone", "c"}, {"rack", "1"}}}};
  snapshot.bytes = 1ULL << 30U;
  snapshot.made_at = SampleTime(3);
  snapshot.ready = true;
  snapshot.is_unlisted = true;
  snapshot.worker = "host-1";
  return snapshot;
}

inline Claim SampleClaim(const std::string& volume = "db[3]", const std::string& allocation = "web-1") {
  Claim claim;
  claim.volume = {.ns = "prod", .id = volume};
  claim.allocation = allocation;
  claim.node = "host-1";
  claim.mode = ClaimMode::kWrite;
  claim.capability = {AccessMode::kSingleNodeMultiWriter, AttachmentMode::kBlockDevice};
  claim.external_node_id = "node-4711";
  claim.state = Claim::State::kNodeDetached;
  claim.kept = true;
  claim.past = true;
  claim.past_since = SampleTime(2);
  claim.lost = true;
  claim.publish = Claim::Publish::kSent;
  claim.publish_context = {{"device", "/dev/sdx"}};
  claim.problem = "the plugin is away";
  claim.taken_at = SampleTime(3);
  return claim;
}

inline Host SampleHost(const std::string& name = "host-1") {
  Host host;
  host.name = name;
  host.version = "0.1.0";
  host.draining = true;
  host.lost = true;
  host.gave_up_claims = true;
  host.joined_at = SampleTime(5);
  host.away_since = SampleTime(6);
  return host;
}

inline AttachmentRecord SampleMount(const std::string& volume = "db[3]", const std::string& allocation = "web-1") {
  AttachmentRecord mount;
  mount.allocation = allocation;
  mount.request = "data";
  mount.volume = {.ns = "prod", .id = volume};
  mount.external_id = "vol-4711";
  mount.plugin = "mooring.csi";
  mount.external_node_id = "node-4711";
  mount.mode = ClaimMode::kWrite;
  mount.capability = {AccessMode::kSingleNodeSingleWriter, AttachmentMode::kBlockDevice};
  mount.options = {.fs_type = "xfs", .flags = {"nouuid"}};
  mount.read_only = true;
  mount.propagation = Propagation::kSlave;
  mount.staged_as = {AccessMode::kMultiNodeSingleWriter, {.fs_type = "ext4", .flags = {"noatime"}}};
  mount.usage = "rw-block-device-single-node-single-writer";
  mount.staging_path = "/root/staging";
  mount.target_path = "/root/target";
  mount.attach_path = "/srv/db";
  mount.made_attach_path = true;
  mount.attach_mount_id = 4711;
  mount.boot = "6f1f1a2c";
  mount.until_reboot = mount.refusable = true;
  mount.phase = AttachmentRecord::Phase::kUnmounting;
  mount.problem = "busy";
  mount.source = "/srv/db2";
  mount.is_device = true;
  mount.mounted_by = "dockerd";
  mount.repeats = 2;
  return mount;
}

inline PluginRecord SamplePlugin(const std::string& name = "mooring.csi") {
  PluginRecord plugin;
  plugin.name = name;
  plugin.declared_by = {"job a", "unit b"};
  plugin.run = PluginRecord::Run{.kind = PluginRecord::Run::Kind::kContainer,
                                 .command = {"--mode", "node"},
                                 .image = "mooring:1",
                                 .environment = {{"KEY", "value"}},
                                 .engine = "/run/docker.sock",
                                 .binds = {{"/srv/state", "/state", true, Propagation::kSlave}},
                                 .start_deadline = std::chrono::seconds(17),
                                 .generation = 9};
  plugin.endpoint = "unix:///run/csi.sock";
  plugin.types = {PluginType::kController, PluginType::kNode};
  return plugin;
}

inline Event SampleEvent() {
  Event event;
  event.number = 4711;
  event.time = SampleTime(7);
  event.bad = true;
  event.kind = "Mount volume";
  event.plugin = "mooring.csi";
  event.instance = "instance-1";
  event.volume = VolumeKey{.ns = "prod", .id = "db[3]"};
  event.allocation = "web-1";
  event.text = "mounted";
  event.host = "host-1";
  return event;
}

inline InstanceInfo SampleInstance(const std::string& id = "instance-1") {
  return {.type = PluginType::kController,
          .name = "mooring.csi",
          .version = "1.2.3",
          .socket_path = "/run/csi.sock",
          .instance_id = id,
          .provider = "docker",
          .mount_point = "/var/lib/mooring",
          .container_mount_point = "/csi"};
}

}  // namespace mooring::manager::samples
