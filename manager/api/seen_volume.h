// The volume of a claim or attach, read once for the whole call.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "manager/records/names.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

// Whether a claim or an attach is the same for both. A call that is undone changes the volume's revision, too.
inline bool IsUsedAlike(const Volume& a, const Volume& b) {
  return a.revisions.create == b.revisions.create && a.capabilities == b.capabilities;
}

// Calls `call` with the volume as it was a moment ago. If that gives INVALID_ARGUMENT, and the volume can be used in
// other ways since, `call` is repeated. NOT_FOUND: there is no such volume.
template <typename Call>
auto WithSeenVolume(RecordsStore& store, const VolumeKey& key, const Call& call)
    -> decltype(call(std::shared_ptr<const VolumeUse>())) {
  for (const Freshness freshness : {Freshness::kMayBeOld, Freshness::kNow}) {
    MOORING_ASSIGN_OR_RETURN(VolumeUse use, store.GetVolumeUse(key, freshness));
    if (!use.volume) continue;
    const auto seen = std::make_shared<const VolumeUse>(std::move(use));
    auto outcome = call(seen);
    if (!absl::IsInvalidArgument(outcome.status()) || freshness == Freshness::kNow) return outcome;
    const auto now = store.GetVolume(key);
    if (!now.ok() || IsUsedAlike(*seen->volume, *now)) return outcome;
  }
  return NotFound("there is no volume {}", ToString(key));
}

}  // namespace mooring::manager
