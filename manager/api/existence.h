// Checks for requests with `must_exist`, and the errors about what does not exist. Without `must_exist` a call that
// ends something is OK if that does not exist: orchestrators repeat such calls.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "manager.pb.h"
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

}  // namespace mooring::manager
