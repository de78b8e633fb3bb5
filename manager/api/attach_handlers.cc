#include <optional>
#include <string>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "manager/api/answers.h"
#include "manager/api/handlers.h"
#include "manager/api/requests.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// Nobody who is gone stops what is under way: it ends, and the next one finds it done.
template <typename Reply>
Attachments::OnStep Telling(const Send<Reply>& send, bool steps) {
  if (!steps) return nullptr;
  return [&send](const std::string& step) {
    Reply reply;
    reply.mutable_step()->set_text(step);
    send(reply);
  };
}

struct Name {
  std::string allocation, request;
};

absl::StatusOr<Name> AttachedAs(const Parts& parts, const v1::DetachRequest& request) {
  if (request.attach_path().empty()) {
    MOORING_RETURN_IF_ERROR(CheckName("the allocation", request.allocation()));
    MOORING_RETURN_IF_ERROR(CheckName("the name of the request", request.request()));
    return Name{request.allocation(), request.request()};
  }
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("the path to detach", request.attach_path()));
  const std::optional<AttachmentRecord> record = parts.journal->FindAttached(path);
  return record ? Name{record->allocation, record->request} : Name();
}

}  // namespace

absl::Status Attach(Parts& parts, const v1::AttachRequest& request, const ApiCall& call,
                    const Send<v1::AttachReply>& send) {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
  MOORING_ASSIGN_OR_RETURN(const Volume volume, parts.volumes->Get(key));
  MOORING_ASSIGN_OR_RETURN(const AttachRequest attach, ParseAttach(request, volume));
  MOORING_ASSIGN_OR_RETURN(const AttachmentRecord record,
                           parts.attachments->Attach(attach, Telling(send, request.steps()), call.until));
  v1::AttachReply reply;
  *reply.mutable_done() = Shown(record);
  send(reply);
  return absl::OkStatus();
}

absl::Status Detach(Parts& parts, const v1::DetachRequest& request, const ApiCall& call,
                    const Send<v1::DetachReply>& send) {
  MOORING_ASSIGN_OR_RETURN(const Name name, AttachedAs(parts, request));
  if (!name.allocation.empty()) {
    MOORING_RETURN_IF_ERROR(
        parts.attachments->Detach(name.allocation, name.request, Telling(send, request.steps()), call.until));
  }
  v1::DetachReply reply;
  reply.set_done(true);
  send(reply);
  return absl::OkStatus();
}

absl::StatusOr<v1::ListAttachmentsResponse> ListAttachments(Parts& parts, const v1::ListAttachmentsRequest& request) {
  std::vector<AttachmentRecord> records;
  if (request.volume().id().empty()) {
    records = parts.journal->All();
  } else {
    MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(request.volume()));
    records = parts.journal->Of(key);
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
