#include "manager/docker/volume_status.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "manager/records/names.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

using Json = nlohmann::json;

std::string_view WordOf(AttachmentRecord::Phase phase) {
  switch (phase) {
    case AttachmentRecord::Phase::kIntent:
      return "attaching";
    case AttachmentRecord::Phase::kMounted:
      return "attached";
    case AttachmentRecord::Phase::kUnmounting:
      return "detaching";
  }
  return "";
}

void PutWord(Json& into, const char* key, const std::string& word) {
  if (!word.empty()) into[key] = word;
}

Json AccessModes(const Volume& volume) {
  Json modes = Json::array();
  for (const Capability& capability : volume.capabilities) modes.push_back(std::string(ToString(capability.access)));
  return modes;
}

// For example "nodes 1/1, controllers 0/1; plugin-1: Probe: out of paper".
Json Health(const std::optional<PluginStatus>& plugin) {
  if (!plugin) return "not registered: see mooring plugin status";
  std::string text = fmt::format("nodes {}/{}", plugin->nodes.healthy, plugin->nodes.expected);
  if (plugin->controllers.expected > 0) {
    text += fmt::format(", controllers {}/{}", plugin->controllers.healthy, plugin->controllers.expected);
  }
  for (const InstanceStatus& instance : plugin->instances) {
    if (!instance.fingerprint.problem.empty()) {
      text += fmt::format("; {}: {}", instance.instance.instance_id, instance.fingerprint.problem);
    }
  }
  return text;
}

Json ClaimStatus(const Claim& claim) {
  Json status = {{"For", claim.allocation}, {"Mode", ToString(claim.mode)}, {"State", ToString(claim.state)}};
  PutWord(status, "Node", claim.node);
  PutWord(status, "Problem", claim.problem);
  if (claim.past) status["Past"] = true;
  return status;
}

Json AttachmentStatus(const AttachmentRecord& mount) {
  Json status = {{"For", mount.allocation}, {"State", WordOf(mount.phase)}, {"ReadOnly", mount.read_only}};
  PutWord(status, "Path", mount.attach_path.empty() ? mount.source : mount.attach_path);
  PutWord(status, "Problem", mount.problem);
  return status;
}

}  // namespace

Json DockerStatusOf(const DockerVolumeFacts& facts) {
  const Volume& volume = facts.volume;
  Json status = {{"Plugin", volume.plugin},
                 {"PluginHealth", Health(facts.plugin)},
                 {"State", ToString(volume.state)},
                 {"Access", AccessModes(volume)},
                 {"ReadOnly", facts.record.read_only},
                 {"Propagation", ToString(facts.record.propagation)},
                 {"Claims", Json::array()},
                 {"Attachments", Json::array()}};
  PutWord(status, "ExternalID", volume.external_id);
  PutWord(status, "FsType", volume.mount_options.fs_type);
  PutWord(status, "FromSnapshot", volume.snapshot_id);
  PutWord(status, "FromVolume", volume.clone_id);
  if (volume.capacity_bytes > 0) status["CapacityBytes"] = volume.capacity_bytes;
  if (volume.exhausted_at) status["Exhausted"] = volume.exhausted_words;
  for (const Claim& claim : facts.claims) status["Claims"].push_back(ClaimStatus(claim));
  for (const AttachmentRecord& mount : facts.attachments) status["Attachments"].push_back(AttachmentStatus(mount));
  return status;
}

}  // namespace mooring::manager
