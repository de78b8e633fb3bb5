#include <optional>
#include <string>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "manager/api/answers.h"
#include "manager/api/existence.h"
#include "manager/api/handlers.h"
#include "manager/api/requests.h"
#include "manager/api/seen_volume.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

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
