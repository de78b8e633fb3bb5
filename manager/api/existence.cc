#include "manager/api/existence.h"

#include <fmt/format.h>

#include <vector>

#include "base/status.h"
#include "base/text/nearest.h"
#include "base/text/quote.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

// A volume of this name in another namespace, or one of a similar name in this one.
absl::StatusOr<std::string> SimilarTo(RecordsStore& store, const VolumeKey& key) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store.ListVolumes());
  std::vector<std::string> ids;
  for (const Volume& volume : volumes) {
    if (volume.key.ns == key.ns) ids.push_back(volume.key.id);
    if (volume.key.id == key.id) {
      return fmt::format("; the namespace {} has a volume of that name: give -n {}", Quote(volume.key.ns),
                         volume.key.ns);
    }
  }
  return DidYouMean(key.id, ids);
}

bool IsMeant(const Claim& claim, const v1::ReleaseVolumeRequest& request) {
  if (!request.allocation().empty() && claim.allocation != request.allocation()) return false;
  return request.mode() == v1::CLAIM_MODE_UNSPECIFIED ||
         (request.mode() == v1::READ) == (claim.mode == ClaimMode::kRead);
}

}  // namespace

absl::Status CheckVolumeExists(RecordsStore& store, const VolumeKey& key) {
  const absl::Status found = store.GetVolume(key).status();
  if (!absl::IsNotFound(found)) return found;
  const absl::StatusOr<std::string> similar = SimilarTo(store, key);
  return similar.ok() ? NotFound("{}", Message(found) + *similar) : found;
}

absl::Status WithSimilarVolume(RecordsStore& store, const VolumeKey& key, const absl::Status& status) {
  if (!absl::IsNotFound(status)) return status;
  const absl::Status exists = CheckVolumeExists(store, key);
  return absl::IsNotFound(exists) ? exists : status;
}

absl::Status NothingAttached(const AttachmentJournal& journal, const v1::DetachRequest& request) {
  std::vector<std::string> paths, names;
  for (const AttachmentRecord& record : journal.All()) {
    paths.push_back(record.attach_path);
    if (record.allocation == request.allocation()) names.push_back(record.request);
  }
  const bool is_path = !request.attach_path().empty();
  const std::string similar = is_path ? DidYouMean(request.attach_path(), paths) : DidYouMean(request.request(), names);
  const std::string advice = similar.empty() ? "; 'mooring attachments' lists the attachments of this host" : similar;
  if (is_path) return NotFound("nothing is attached at {}{}", Quote(request.attach_path()), advice);
  return NotFound("{} has no attachment {}{}", Quote(request.allocation()), Quote(request.request()), advice);
}

absl::Status CheckClaimed(RecordsStore& store, const VolumeKey& key, const v1::ReleaseVolumeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store.ListClaims(key));
  std::vector<std::string> allocations;
  for (const Claim& claim : claims) {
    if (IsMeant(claim, request)) return absl::OkStatus();
    allocations.push_back(claim.allocation);
  }
  MOORING_RETURN_IF_ERROR(CheckVolumeExists(store, key));
  if (request.allocation().empty()) return NotFound("volume {} has no claims", ToString(key));
  return NotFound("{} has no {}claim on volume {}{}", Quote(request.allocation()),
                  request.mode() == v1::CLAIM_MODE_UNSPECIFIED ? ""
                  : request.mode() == v1::READ                 ? "read "
                                                               : "write ",
                  ToString(key), DidYouMean(request.allocation(), allocations));
}

absl::Status CheckHasClaims(RecordsStore& store, const std::string& allocation) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store.ListClaims());
  std::vector<std::string> allocations;
  for (const Claim& claim : claims) {
    if (claim.allocation == allocation) return absl::OkStatus();
    allocations.push_back(claim.allocation);
  }
  return NotFound("{} has no claims{}", Quote(allocation), DidYouMean(allocation, allocations));
}

}  // namespace mooring::manager
