// Attachments: volumes at paths of this host.
#include <fmt/format.h>

#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/connection.h"
#include "cli/manager/host_filter.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/manager/show.h"

namespace mooring::cli::manager_area {
namespace {

std::string AttachedText(const v1::Attachment& attachment) {
  const std::string& at = attachment.attach_path().empty() ? attachment.source() : attachment.attach_path();
  return fmt::format("attached {} at {} for {} ({}, {}{})\n", Visible(ToString(attachment.volume())), Visible(at),
                     Visible(attachment.allocation()), ToString(attachment.capability()),
                     ToString(attachment.propagation()), attachment.read_only() ? ", read-only" : "");
}

absl::Status Attach(Session& session) {
  MOORING_ASSIGN_OR_RETURN(v1::AttachRequest request, AttachRequestOf(session.arguments));
  request.set_steps(true);
  MOORING_ASSIGN_OR_RETURN(const auto reply, CallWithSteps(session.client, &Manager::Stub::Attach, request));
  return session.Show(reply.done(), AttachedText(reply.done()));
}

std::string DetachedText(const v1::DetachRequest& request) {
  if (!request.attach_path().empty()) return fmt::format("detached {}\n", Visible(request.attach_path()));
  return fmt::format("detached {} of {}\n", Visible(request.request()), Visible(request.allocation()));
}

absl::Status Detach(Session& session) {
  MOORING_ASSIGN_OR_RETURN(v1::DetachRequest request, DetachRequestOf(session.arguments));
  request.set_steps(true);
  request.set_must_exist(!session.arguments.if_exists);
  MOORING_ASSIGN_OR_RETURN(const auto reply, CallWithSteps(session.client, &Manager::Stub::Detach, request));
  return session.Show(reply, DetachedText(request));
}

absl::Status ListAttachments(Session& session) {
  v1::ListAttachmentsRequest request;
  if (!session.arguments.id.empty()) *request.mutable_volume() = KeyOf(session.arguments);
  request.set_allocation(session.arguments.allocation);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ListAttachments, request));
  if (response.attachments().empty()) MOORING_RETURN_IF_ERROR(CheckVolume(session, request.volume()));
  return session.Show(response, AttachmentTable(response.attachments()));
}

constexpr char kAttachExamples[] =
    "Examples:\n"
    "  mooring attach db /srv/db --for web-1 --propagation rslave\n"
    "  mooring attach db /srv/db --for web-1 --per-alloc 1";
constexpr char kDetachExamples[] = "Examples:\n  mooring detach /srv/db\n  mooring detach db --for web-1";

}  // namespace

Commands AttachmentCommands() {
  return {
      {"attach",
       "Claim a volume and attach it at a path",
       {&Shared::kVolumeId},
       AllOf<Arguments>({{&kPath, &kFor, &kNamespace, &kRequest, &kMode, &kReadOnly, &kPropagation, &kAccess,
                          &Shared::kBlock, &kFsType, &Shared::kMountFlag},
                         kJobFlags}),
       Attach,
       kAttachExamples},
      {"detach", "Detach a volume and release its claim", {&kAttached}, {&kFor, &kIfExists}, Detach, kDetachExamples},
      {"attachments",
       "List the volumes that are attached on this host",
       {},
       {&kOfVolume, &kNamespace, &kOfAllocation},
       ListAttachments,
       "Attachments are always of the host whose manager answers. 'mooring claims' has the volumes in use on all "
       "hosts."},
  };
}

}  // namespace mooring::cli::manager_area
