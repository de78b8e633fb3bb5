#include "plugin/node/node_volumes.h"

#include "base/status.h"

namespace mooring {

NodeVolumes::NodeVolumes(Mounter& mounter, VolumeSource& source, NodeStore& store, KeyedLocks& volume_locks,
                         Propagation propagation, StagingBy staging_by)
    : source_(source),
      finder_(mounter, source, store),
      devices_(mounter, source, store),
      tuner_(mounter, store, finder_, devices_),
      locks_(volume_locks),
      stager_(mounter, store, finder_, devices_, tuner_, staging_by),
      publisher_(mounter, store, finder_, devices_, stager_, propagation),
      expander_(mounter, finder_, devices_),
      health_(mounter, source, store, finder_),
      teardown_(mounter, store, finder_, devices_, locks_, staging_by),
      reconciler_(mounter, source, store, finder_, devices_, locks_, teardown_, staging_by) {}

absl::Status NodeVolumes::Stage(const StageSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.staging_path, call));
  source_.WaitFor(spec.volume_id, call.wait_until);
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  return stager_.Stage(spec, volume);
}

absl::Status NodeVolumes::Publish(const PublishSpec& spec, const Call& call) {
  if (spec.staging_path.empty()) {
    return FailedPrecondition("staging_target_path is missing: this driver stages volumes before it publishes them");
  }
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.target_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  return publisher_.Publish(spec, volume);
}

absl::Status NodeVolumes::PublishAlone(const PublishSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.target_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  return publisher_.PublishAlone(spec, volume);
}

absl::StatusOr<std::uint64_t> NodeVolumes::Expand(const ExpandSpec& spec, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(spec.volume_id, spec.volume_path, call));
  MOORING_ASSIGN_OR_RETURN(const NodeVolume volume, source_.Find(spec.volume_id));
  MOORING_RETURN_IF_ERROR(expander_.Expand(spec, volume));
  return volume.bytes;
}

absl::Status NodeVolumes::CheckIsAt(const std::string& volume_id, const std::string& path) {
  MOORING_RETURN_IF_ERROR(source_.Find(volume_id).status());
  return finder_.FindVolumeAt(volume_id, path).status();
}

}  // namespace mooring
