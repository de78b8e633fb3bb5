// Publishes a volume without a staging path: it is mounted at its target in the way in which Stage mounts.
#include <fmt/format.h>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "plugin/node/node_volumes.h"

namespace mooring {

absl::Status NodeVolumes::PublishAlone(const PublishSpec& asked, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Hold hold, Acquire(asked.volume_id, asked.target_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(asked.volume_id));
  MOORING_RETURN_IF_ERROR(CheckSuits(volume, asked.capability));
  PublishSpec spec = asked;
  if (!spec.propagation) spec.propagation = volume.propagation;
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, mounter_.Find(spec.target_path));
  if (target.mount) return CheckPublishedAlike(spec, volume, target);
  const StageSpec direct = {.volume_id = spec.volume_id,
                            .staging_path = spec.target_path,
                            .capability = spec.capability,
                            .as_target = StageSpec::AsTarget{spec.propagation, PropagationFor(spec)}};
  return StageMount(direct, volume, target);
}

absl::StatusOr<std::vector<std::string>> NodeVolumes::LivePaths(const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  std::vector<std::string> paths;
  for (const VolumeUse& use : uses) {
    MOORING_ASSIGN_OR_RETURN(const bool live, IsLive(use));
    if (live) paths.push_back(use.path);
  }
  return paths;
}

std::string NodeVolumes::CommandsToFree(const std::string& volume_id) {
  const absl::StatusOr<std::vector<VolumeUse>> uses = store_.OfVolume(volume_id);
  if (!uses.ok()) return "";
  std::string commands;
  for (const VolumeUse::Role role : {VolumeUse::Role::kTarget, VolumeUse::Role::kStage}) {
    for (const VolumeUse& use : *uses) {
      if (use.role != role || !IsLive(use).value_or(false)) continue;
      const bool target = role == VolumeUse::Role::kTarget;
      commands +=
          fmt::format("{}mooring csi {} {} --{}-path {}", commands.empty() ? "" : " && ",
                      target ? "unpublish" : "unstage", volume_id, target ? "target" : "staging", ShellQuote(use.path));
    }
  }
  return commands;
}

}  // namespace mooring
