#include "plugin/node/volume_teardown.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_mount.h"

namespace mooring {

absl::StatusOr<VolumeTeardown::Ending> VolumeTeardown::AcquireToEnd(const std::string& volume_id,
                                                                    const std::string& path, const Call& call) {
  constexpr int kAttempts = 3;  // each lost to another use of the path
  std::string locked = volume_id;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MOORING_ASSIGN_OR_RETURN(NodeLocks::Hold hold, locks_.Acquire(locked, path, call));
    MOORING_ASSIGN_OR_RETURN(PathInfo place, mounter_.Find(path));
    MOORING_ASSIGN_OR_RETURN(std::optional<VolumeUse> known, store_.Get(path));
    std::string owner = place.mount ? finder_.Owner(place) : known ? known->volume_id : "";
    if (known && IsStrayNode(*known, place, owner)) owner = known->volume_id;  // it is unmounted all the same
    if (owner.empty() || owner == locked) {
      return Ending{std::move(hold), std::move(place), std::move(known), std::move(owner)};
    }
    MOORING_RETURN_IF_ERROR(finder_.CheckMayEnd(volume_id, path, owner));
    locked = std::move(owner);
  }
  return Aborted("{} is being used for other volumes: call again later", Quote(path));
}

absl::StatusOr<std::string> VolumeTeardown::Unstage(const std::string& volume_id, const std::string& staging_path,
                                                    const Call& call) {
  MOORING_ASSIGN_OR_RETURN(Ending ending, AcquireToEnd(volume_id, staging_path, call));
  MOORING_RETURN_IF_ERROR(EndStaging(volume_id, staging_path, ending));
  return std::move(ending.owner);
}

absl::Status VolumeTeardown::EndStaging(const std::string& volume_id, const std::string& staging_path,
                                        const Ending& ending) {
  const bool is_block = ending.known && ending.known->access_type == AccessType::kBlock;
  if (ending.place.mount || plugin_stages_) {
    const absl::Status ended = unmounter_.Unmount(volume_id, staging_path, ending.place, plugin_stages_);
    // A block volume is not mounted at its staging path, so other files in that directory do not keep the device.
    if (!ended.ok() && (!is_block || ending.place.mount)) return ended;
    log::WarningIfFailed(ended, "a staging directory is left", {{"volume", volume_id}});
  }
  if (!ending.known) return absl::OkStatus();
  if (is_block) {
    MOORING_RETURN_IF_ERROR(devices_.Flush(ending.known->volume_id));
    MOORING_RETURN_IF_ERROR(devices_.Release(ending.known->volume_id, staging_path));
  }
  return store_.DeleteEnded(staging_path);
}

// The usual case, in one call to the mounter: what is on record as published there is there, or was unmounted already.
absl::StatusOr<bool> VolumeTeardown::UnpublishByRecord(const std::string& volume_id, const std::string& target_path,
                                                       const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const NodeLocks::Hold hold, locks_.Acquire(volume_id, target_path, call));
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> known, store_.Get(target_path));
  if (!known || known->volume_id != volume_id || known->access_type != AccessType::kMount) return false;
  const absl::StatusOr<bool> done = mounter_.UnmountIf(
      {.unmount = {.target = target_path, .remove_target = true}, .target = ExpectedMountOf(volume_id)});
  // Another mount is at the path, or below it; or the mount helper ended, and the next one tells how far it got.
  if (absl::IsFailedPrecondition(done.status()) || absl::IsUnavailable(done.status())) return false;
  if (!done.ok() || !*done) return done;
  MOORING_RETURN_IF_ERROR(store_.DeleteEnded(target_path));
  return true;
}

absl::StatusOr<std::string> VolumeTeardown::Unpublish(const std::string& volume_id, const std::string& target_path,
                                                      const Call& call) {
  std::string owner = volume_id;
  MOORING_ASSIGN_OR_RETURN(const bool ended, UnpublishByRecord(volume_id, target_path, call));
  if (!ended) {
    MOORING_ASSIGN_OR_RETURN(const Ending ending, AcquireToEnd(volume_id, target_path, call));
    MOORING_RETURN_IF_ERROR(EndTarget(volume_id, target_path, ending));
    owner = ending.owner;
  }
  if (!plugin_stages_) return owner;
  MOORING_RETURN_IF_ERROR(
      Annotate(UnstageUnused(owner.empty() ? volume_id : owner, call),
               fmt::format("the target {} is gone, and what is staged for it is not", Quote(target_path))));
  return owner;
}

absl::Status VolumeTeardown::EndTarget(const std::string& volume_id, const std::string& target_path,
                                       const Ending& ending) {
  if (ending.place.kind == PathInfo::Kind::kSymlink) {
    return FailedPrecondition("target path {} is a symbolic link: it is left alone", Quote(target_path));
  }
  MOORING_RETURN_IF_ERROR(unmounter_.Unmount(volume_id, target_path, ending.place, true));
  const bool was_block = ending.place.kind == PathInfo::Kind::kBlockDevice ||
                         (ending.known && ending.known->access_type == AccessType::kBlock);
  if (was_block && !ending.owner.empty()) {
    MOORING_RETURN_IF_ERROR(devices_.Release(ending.owner, target_path));
  }
  return ending.known ? store_.DeleteEnded(target_path) : absl::OkStatus();
}

absl::Status VolumeTeardown::UnstageUnused(const std::string& volume_id, const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeUse> uses, store_.OfVolume(volume_id));
  absl::Status outcome;
  for (const VolumeUse& use : uses) {
    if (use.role == VolumeUse::Role::kStage) outcome.Update(UnstageIfUnused(volume_id, use.path, call));
  }
  return outcome;
}

absl::Status VolumeTeardown::UnstageIfUnused(const std::string& volume_id, const std::string& staging_path,
                                             const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Ending ending, AcquireToEnd(volume_id, staging_path, call));
  const auto is_target = [](const VolumeUse& use) { return use.role == VolumeUse::Role::kTarget; };
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeUse> target, finder_.FindLive(volume_id, is_target));
  return target ? absl::OkStatus() : EndStaging(volume_id, staging_path, ending);
}

}  // namespace mooring
