// Checks for requests with `must_exist`, and the errors about what does not exist. Without `must_exist` a call that
// ends something is OK if that does not exist: orchestrators repeat such calls.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "manager.pb.h"
#include "manager/records/names.h"
#include "manager/records/records.h"
#include "manager/state/records_store.h"
#include "manager/volumes/attachment_journal.h"

namespace mooring::manager {

// NOT_FOUND names a similar volume, or the same one in another namespace.
absl::Status CheckVolumeExists(RecordsStore& store, const VolumeKey& key);

// `status` if it is not NOT_FOUND, or the volume exists. Else CheckVolumeExists.
absl::Status WithSimilarVolume(RecordsStore& store, const VolumeKey& key, const absl::Status& status);

// NOT_FOUND names a similar path, or a similar name that the allocation has for an attachment.
absl::Status NothingAttached(const AttachmentJournal& journal, const v1::DetachRequest& request);

// NOT_FOUND: the volume does not exist, or nobody has a claim that the request means.
absl::Status CheckClaimed(RecordsStore& store, const VolumeKey& key, const v1::ReleaseVolumeRequest& request);

// NOT_FOUND: the allocation has no claim on any host.
absl::Status CheckHasClaims(RecordsStore& store, const std::string& allocation);

// Whether a claim or an attach is the same for both. A call that is undone changes the volume's revision, too.
inline bool IsUsedAlike(const Volume& a, const Volume& b) {
  return a.revisions.create == b.revisions.create && a.capabilities == b.capabilities;
}

// Reads the volume of a claim or attach once, and calls `call` with it as it was a moment ago. If that gives
// INVALID_ARGUMENT, and the volume can be used in other ways since, `call` is repeated. NOT_FOUND: there is no such
// volume.
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
