#include "plugin/node/stage/stage_spec.h"

namespace mooring {
VolumeUse NewUse(VolumeUse::Role role, const std::string& volume_id, const std::string& path,
                 const Capability& capability) {
  return {.path = path,
          .volume_id = volume_id,
          .role = role,
          .access_type = capability.access_type,
          .mode = capability.mode};
}

VolumeUse StagedUse(const StageSpec& spec) {
  using Role = VolumeUse::Role;
  VolumeUse use =
      NewUse(spec.as_target ? Role::kTarget : Role::kStage, spec.volume_id, spec.staging_path, spec.capability);
  use.read_only = IsReadOnly(spec.capability, spec.read_only);
  use.capability = ToString(spec.capability);
  use.options = ToString(spec.capability.options.options);
  if (!spec.as_target) return use;
  use.asked_propagation = spec.as_target->asked;
  use.propagation = spec.as_target->propagation;
  return use;
}

MountFlags StagedFlags(const StageSpec& spec, const NodeVolume& volume) {
  MountFlags flags = Tuned(spec.capability.options.flags, volume.tuning);
  flags.read_only = IsReadOnly(spec.capability, spec.read_only);
  return FlagsOfNewMount(flags, spec.capability);
}

Propagation StagedPropagation(const StageSpec& spec) {
  return spec.as_target ? spec.as_target->propagation : Propagation::kPrivate;
}

}  // namespace mooring
