#include "plugin/node/stage/stage_spec.h"

namespace mooring {
namespace {

bool StagesReadOnly(const StageSpec& spec) {
  return spec.capability.options.flags.read_only || spec.read_only || IsReaderOnly(spec.capability.mode);
}

}  // namespace

VolumeUse StagedUse(const StageSpec& spec) {
  VolumeUse use;
  use.path = spec.staging_path;
  use.volume_id = spec.volume_id;
  use.role = VolumeUse::Role::kStage;
  use.access_type = spec.capability.access_type;
  use.mode = spec.capability.mode;
  use.read_only = StagesReadOnly(spec);
  use.capability = ToString(spec.capability);
  use.options = ToString(spec.capability.options.options);
  if (!spec.as_target) return use;
  use.role = VolumeUse::Role::kTarget;
  use.asked_propagation = spec.as_target->asked;
  use.propagation = spec.as_target->propagation;
  return use;
}

MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume) {
  MountFlags flags = Tuned(spec.capability.options.flags, volume.tuning);
  flags.read_only = StagesReadOnly(spec);
  return FlagsOfNewMount(flags, spec.capability);
}

Propagation StagedPropagation(const StageSpec& spec) {
  return spec.as_target ? spec.as_target->propagation : Propagation::kPrivate;
}

}  // namespace mooring
