#include "manager/attach/attachment_rules.h"

#include <fmt/format.h>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_paths.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

// An attachment is read-only if the volume, the request or a mount flag says so.
bool IsReadOnly(const AttachmentRecord& record) {
  return record.read_only || record.mode == ClaimMode::kRead || IsReader(record.capability.access) ||
         SaysReadOnly(record.options);
}

// A request that names no option agrees with the options of the volume.
bool AgreesWith(const MountOptions& asked, const MountOptions& options) {
  return (asked.fs_type.empty() || asked.fs_type == options.fs_type) &&
         (asked.flags.empty() || AreEqual({"", asked.flags}, {"", options.flags}));
}

}  // namespace

absl::StatusOr<AttachmentRecord> RecordOf(const AttachRequest& request) {
  AttachmentRecord record;
  record.allocation = request.allocation;
  record.request = request.request.empty() ? request.volume.id : request.request;
  record.volume = request.volume;
  record.plugin = request.plugin;
  record.mode = request.mode;
  record.capability = request.capability;
  record.options = request.options;
  record.read_only = request.read_only;
  record.read_only = IsReadOnly(record);
  record.propagation = request.propagation;
  record.until_reboot = request.until_reboot;
  MOORING_RETURN_IF_ERROR(CheckName("allocation", record.allocation));
  MOORING_RETURN_IF_ERROR(CheckName("request", record.request));
  MOORING_RETURN_IF_ERROR(CheckPropagation(record.propagation, record.read_only));
  if (!request.attach_path.empty()) {
    MOORING_ASSIGN_OR_RETURN(record.attach_path, NormalisePath("attach path", request.attach_path));
  }
  return record;
}

std::string Difference(const AttachmentRecord& requested, const AttachmentRecord& existing) {
  std::string text;
  const auto compare = [&](bool same, const std::string& there, const std::string& asked) {
    if (!same) text += fmt::format("{}{}, not {}", text.empty() ? "" : "; ", there, asked);
  };
  const auto compare_words = [&](std::string_view what, std::string_view there, std::string_view asked) {
    compare(there == asked, fmt::format("{} {}", what, there), std::string(asked));
  };
  compare(requested.volume == existing.volume, "volume " + ToString(existing.volume), ToString(requested.volume));
  compare_words("mode", ToString(existing.mode), ToString(requested.mode));
  compare_words("access mode", ToString(existing.capability.access), ToString(requested.capability.access));
  compare_words("attachment mode", ToString(existing.capability.attachment), ToString(requested.capability.attachment));
  compare(AgreesWith(requested.options, existing.options), "mount options " + ShownText(existing.options),
          ShownText(requested.options));
  compare(requested.read_only == existing.read_only || SaysReadOnly(existing.options),
          existing.read_only ? "read-only" : "writable", requested.read_only ? "read-only" : "writable");
  compare_words("propagation", ToString(existing.propagation), ToString(requested.propagation));
  const auto path = [](const std::string& at) { return at.empty() ? "none" : Quote(at); };
  compare(requested.attach_path == existing.attach_path, "attach path " + path(existing.attach_path),
          path(requested.attach_path));
  return text;
}

void FillIn(AttachmentRecord& record, const ClaimAnswer& answer) {
  record.plugin = answer.volume.plugin;
  record.external_id = answer.volume.external_id;
  record.external_node_id = answer.claim.external_node_id;
  const MountOptions staged = StagedOptions(answer.volume.mount_options, record.options);
  record.options = Override(answer.volume.mount_options, record.options);
  record.read_only = IsReadOnly(record);
  // Staged in the mode in use, which the controller publishes and every claim has to agree with.
  record.staged_as = {.access = answer.volume.in_use.value_or(record.capability).access, .options = staged};
}

}  // namespace mooring::manager
