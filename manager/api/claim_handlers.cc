#include <optional>
#include <string>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "manager/api/existence.h"
#include "manager/api/handlers.h"
#include "manager/api/messages.h"
#include "manager/records/names.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

bool IsOf(const Claim& claim, const std::string& allocation) {
  return allocation.empty() || claim.allocation == allocation;
}

std::vector<ClaimMode> ModesOf(const v1::ReleaseVolumeRequest& request) {
  if (request.mode() == v1::READ) return {ClaimMode::kRead};
  if (request.mode() == v1::WRITE) return {ClaimMode::kWrite};
  return {ClaimMode::kRead, ClaimMode::kWrite};
}

// A client that goes away does not stop its call. The result stays for the next caller.
template <typename Reply>
Attachments::OnStep StepSender(const Send<Reply>& send, bool steps) {
  if (!steps) return nullptr;
  return [&send](const std::string& step) {
    Reply reply;
    reply.mutable_step()->set_text(step);
    send(reply);
  };
}

struct AttachmentName {
  std::string allocation, request;  // empty: nothing is attached
};

absl::StatusOr<AttachmentName> NameOf(const AttachmentJournal& journal, const v1::DetachRequest& request) {
  if (request.attach_path().empty()) {
    MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation()));
    MOORING_RETURN_IF_ERROR(CheckName("the name of the request", request.request()));
    return AttachmentName{request.allocation(), request.request()};
  }
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("the path to detach", request.attach_path()));
  const std::optional<AttachmentRecord> record = journal.FindAttached(path);
  if (record) return AttachmentName{record->allocation, record->request};
  MOORING_RETURN_IF_ERROR(journal.CheckReadable());
  return AttachmentName();
}

}  // namespace

absl::Status ClaimHandlers::Force(const VolumeKey& key, const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> held, store.ListClaims(key));
  for (const Claim& claim : held) MOORING_RETURN_IF_ERROR(journal.CheckReadable(claim.allocation));
  return claims.Force(
      key, [&](const Claim& claim) { return attachments.IsMountedFor(claim); }, call.until);
}

absl::Status ClaimHandlers::ReleaseAll(const VolumeKey& key, const v1::ReleaseVolumeRequest& request,
                                       const ApiCall& call) {
  if (request.force()) return Force(key, call);
  MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation()));
  for (const ClaimMode mode : ModesOf(request)) {
    MOORING_RETURN_IF_ERROR(attachments.Release(key, mode, request.allocation(), call.until));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ClaimVolumeResponse> ClaimHandlers::ClaimVolume(const v1::ClaimVolumeRequest& request,
                                                                   const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  const auto claim = [&](std::shared_ptr<const VolumeUse> seen) -> absl::StatusOr<ClaimAnswer> {
    MOORING_ASSIGN_OR_RETURN(ClaimRequest asked, ParseClaim(request, *seen->volume, host));
    asked.keep = true;
    asked.seen = std::move(seen);
    return claims.Take(asked, call.until);
  };
  const absl::StatusOr<ClaimAnswer> answer = WithSeenVolume(store, key, claim);
  MOORING_RETURN_IF_ERROR(WithSimilarVolume(store, key, answer.status()));
  v1::ClaimVolumeResponse response;
  *response.mutable_volume() = Shown(answer->volume);
  *response.mutable_claim() = ToProto(answer->claim);
  return response;
}

absl::StatusOr<v1::ReleaseVolumeResponse> ClaimHandlers::ReleaseVolume(const v1::ReleaseVolumeRequest& request,
                                                                       const ApiCall& call) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  if (request.must_exist()) MOORING_RETURN_IF_ERROR(CheckClaimed(store, key, request));
  MOORING_RETURN_IF_ERROR(ReleaseAll(key, request, call));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> left, store.ListClaims(key));
  const std::vector<ClaimMode> modes = ModesOf(request);
  v1::ReleaseVolumeResponse response;
  for (const Claim& claim : left) {
    if (!IsOf(claim, request.allocation())) continue;
    if (std::find(modes.begin(), modes.end(), claim.mode) != modes.end()) *response.add_owed() = ToProto(claim);
  }
  return response;
}

absl::StatusOr<v1::ListClaimsResponse> ClaimHandlers::ListClaims(const v1::ListClaimsRequest& request) {
  // The revision is read first, as in ListVolumes.
  MOORING_ASSIGN_OR_RETURN(const Listing now, state.List(RegistryStateKey(host)));
  const auto is_asked = [&](const Claim& claim) { return IsOf(claim, request.allocation()); };
  std::vector<Claim> found;
  if (request.volume().id().empty()) {
    MOORING_ASSIGN_OR_RETURN(found, store.ListClaims(is_asked));
  } else {
    MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
    MOORING_ASSIGN_OR_RETURN(found, store.ListClaims(key));
  }
  v1::ListClaimsResponse response;
  response.set_revision(now.revision);
  for (const Claim& claim : found) {
    if (is_asked(claim)) *response.add_claims() = ToProto(claim);
  }
  return response;
}

absl::StatusOr<v1::AllocationGoneResponse> ClaimHandlers::AllocationGone(const v1::AllocationGoneRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation()));
  if (request.must_exist()) MOORING_RETURN_IF_ERROR(CheckHasClaims(store, request.allocation()));
  MOORING_RETURN_IF_ERROR(claims.AllocationGone(request.allocation()));
  const auto is_past = [&](const Claim& claim) { return claim.past && claim.allocation == request.allocation(); };
  MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> past, store.ListClaims(is_past));
  v1::AllocationGoneResponse response;
  response.set_claims(static_cast<int>(past.size()));
  return response;
}

absl::Status AttachHandlers::Attach(const v1::AttachRequest& request, const ApiCall& call,
                                    const Send<v1::AttachReply>& send) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  const auto attach = [&](std::shared_ptr<const VolumeUse> seen) -> absl::StatusOr<AttachmentRecord> {
    MOORING_ASSIGN_OR_RETURN(AttachRequest asked, ParseAttach(request, *seen->volume));
    asked.seen = std::move(seen);
    return attachments.Attach(asked, StepSender(send, request.steps()), call.until);
  };
  const absl::StatusOr<AttachmentRecord> attached = WithSeenVolume(store, key, attach);
  MOORING_RETURN_IF_ERROR(WithSimilarVolume(store, key, attached.status()));
  v1::AttachReply reply;
  *reply.mutable_done() = Shown(*attached);
  send(reply);
  return absl::OkStatus();
}

absl::Status AttachHandlers::Detach(const v1::DetachRequest& request, const ApiCall& call,
                                    const Send<v1::DetachReply>& send) {
  MOORING_ASSIGN_OR_RETURN(const AttachmentName name, NameOf(journal, request));
  if (request.must_exist() && !journal.Find(name.allocation, name.request)) {
    MOORING_RETURN_IF_ERROR(journal.CheckReadable(name.allocation, name.request));
    return NothingAttached(journal, request);
  }
  if (!name.allocation.empty()) {
    MOORING_RETURN_IF_ERROR(attachments.Detach(name.allocation, name.request, Attachments::Failure::kChangesNothing,
                                               StepSender(send, request.steps()), call.until));
  }
  v1::DetachReply reply;
  reply.set_done(true);
  send(reply);
  return absl::OkStatus();
}

absl::StatusOr<v1::ListAttachmentsResponse> AttachHandlers::ListAttachments(const v1::ListAttachmentsRequest& request) {
  std::vector<AttachmentRecord> records;
  if (request.volume().id().empty()) {
    records = journal.All();
  } else {
    MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
    records = journal.Of(key);
  }
  v1::ListAttachmentsResponse response;
  for (const AttachmentRecord& record : records) {
    if (request.allocation().empty() || record.allocation == request.allocation()) {
      *response.add_attachments() = Shown(record);
    }
  }
  return response;
}

}  // namespace mooring::manager
