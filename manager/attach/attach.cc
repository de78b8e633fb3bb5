// Attaching, and undoing an attach that fails.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/attach/attachments.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_paths.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kExpandTime{10};  // for an owed expansion after a mount

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

// INVALID_ARGUMENT: a name, the propagation or the path is not valid.
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
  record.mounted_by = request.mounted_by;
  MOORING_RETURN_IF_ERROR(CheckName("allocation", record.allocation));
  MOORING_RETURN_IF_ERROR(CheckName("request", record.request));
  MOORING_RETURN_IF_ERROR(CheckPropagation(record.propagation, record.read_only));
  if (!request.attach_path.empty()) {
    MOORING_ASSIGN_OR_RETURN(record.attach_path, NormalisePath("attach path", request.attach_path));
  }
  return record;
}

// The fields in which an existing attachment differs from the requested one; empty: none. Names no mount flags. A
// request without mount options agrees with any.
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

// Adds the fields that depend on the claimed volume.
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

MountContext ContextOf(const ClaimAnswer& answer) {
  return {.volume_context = answer.volume.context,
          .publish_context = answer.claim.publish_context,
          .secrets = answer.volume.secrets};
}

std::string NameOf(const AttachmentRecord& record) {
  return fmt::format("volume {} for {}", ToString(record.volume), Quote(record.allocation));
}

// A manager that stops undoes nothing: the intent stays, and the next start undoes it.
absl::Status CutShort(const AttachmentRecord& record) {
  return Annotate(Stopping(), fmt::format("attach {} was interrupted, and is undone at the next start of the manager",
                                          NameOf(record)));
}

}  // namespace

absl::StatusOr<AttachmentRecord> Attachments::Attach(const AttachRequest& request, const OnStep& asked_step,
                                                     Clock::time_point until) {
  const OnStep on_step = asked_step ? asked_step : ignore_steps_;
  MOORING_ASSIGN_OR_RETURN(const AttachmentRecord record, RecordOf(request));
  const Clock::time_point patience = std::min(until, Clock::now() + settings_.claim_patience);
  while (!settings_.may_attach().ok() && Clock::now() < patience && !stop_.stop_requested()) {
    SleepUntil(stop_.get_token(), Clock::now() + settings_.claim_pause);
  }
  MOORING_RETURN_IF_ERROR(Annotate(settings_.may_attach(), "attach " + NameOf(record)));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, locks_.Request(record.allocation, record.request, until));
  MOORING_RETURN_IF_ERROR(CheckAwaited(request.is_abandoned));
  std::optional<AttachmentRecord> existing = journal_.Find(record.allocation, record.request);
  if (!existing) return AttachAnew(record, request, on_step, until);
  if (existing->phase != AttachmentRecord::Phase::kMounted) {  // an interrupted attach or detach is finished first
    MOORING_RETURN_IF_ERROR(
        Annotate(detacher_.Detach(*existing, on_step, until), "the earlier attachment is still being detached"));
    return AttachAnew(record, request, on_step, until);
  }
  if (const std::string difference = Difference(record, *existing); !difference.empty()) {
    return AlreadyExists("{} has {} attached in another way: {}; detach it first", Quote(record.allocation),
                         Quote(record.request), difference);
  }
  const bool is_counted = !request.mounted_by.empty();
  const bool was_there = is_counted && volumes_.HasMount(*existing, until).value_or(true);
  MOORING_RETURN_IF_ERROR(Annotate(Revive(*existing, on_step, until, until), "attach " + NameOf(record)));
  if (is_counted) MOORING_RETURN_IF_ERROR(CountRepeat(*existing, request, was_there));
  return *existing;
}

// A caller that has restarted knows no repeats of before. A user that outlived it (a container, with Docker's
// live-restore) has the mount that is there. Without one, this attach is the first: a daemon that was killed never told
// the end of its containers. A count that is too high keeps a volume attached; one that is too low takes it from its
// user.
absl::Status Attachments::CountRepeat(AttachmentRecord& record, const AttachRequest& request, bool was_there) {
  const bool is_known = record.mounted_by.empty() || record.mounted_by == request.mounted_by;
  const auto is_used = [&] { return !request.has_older_user || request.has_older_user(record); };
  record.repeats = is_known ? record.repeats + 1 : static_cast<std::uint64_t>(was_there && is_used());
  record.mounted_by = request.mounted_by;
  return journal_.Put(record, Durability::kSynced);
}

absl::StatusOr<bool> Attachments::EndRepeat(const std::string& allocation, const std::string& request,
                                            const std::string& mounted_by, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, locks_.Request(allocation, request, until));
  std::optional<AttachmentRecord> record = journal_.Find(allocation, request);
  if (!record || record->repeats == 0 || mounted_by.empty() || record->mounted_by != mounted_by) return false;
  if (record->phase != AttachmentRecord::Phase::kMounted) return false;
  --record->repeats;
  MOORING_RETURN_IF_ERROR(journal_.Put(*record, Durability::kSynced));
  return true;
}

absl::StatusOr<AttachmentRecord> Attachments::AttachAnew(AttachmentRecord record, const AttachRequest& request,
                                                         const OnStep& on_step, Clock::time_point until) {
  const absl::StatusOr<ClaimAnswer> answer = IntendAndClaim(record, request, on_step, until);
  if (absl::IsCancelled(answer.status())) return CutShort(record);
  MOORING_RETURN_IF_ERROR(Annotate(answer.status(), "attach " + NameOf(record)));
  const absl::Status status = MountClaimed(record, *answer, request.is_abandoned, on_step, until);
  if (absl::IsCancelled(status)) return CutShort(record);
  if (!status.ok()) return RollBack(record, Annotate(status, "attach " + NameOf(record)), on_step, until);
  return record;
}

// The claim's lock is held from the intent on, so that a concurrent release sees both intent and claim, or neither.
absl::StatusOr<ClaimAnswer> Attachments::IntendAndClaim(AttachmentRecord& record, const AttachRequest& request,
                                                        const OnStep& on_step, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold,
                           locks_.Claim(record.volume, record.mode, record.allocation, until));
  MOORING_RETURN_IF_ERROR(CheckAwaited(request.is_abandoned));
  MOORING_RETURN_IF_ERROR(WriteIntent(record, until));
  on_step("claim");
  absl::StatusOr<ClaimAnswer> answer = ClaimWithRetry(record, request, until);
  if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
  // If the intent or the claim cannot be deleted, both are undone in the background, as after a crash.
  const bool owed = claims_.IsRollbackOwed(record.volume, record.mode, record.allocation);
  if (owed || !journal_.Remove(record, Durability::kOrdered).ok()) {
    queue_.Schedule(record, settings_.first_retry);
  }
  return Annotate(answer.status(), "claim");
}

absl::StatusOr<ClaimAnswer> Attachments::ClaimAgain(const AttachmentRecord& record, MountNow mount,
                                                    const OnStep& on_step, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold,
                           locks_.Claim(record.volume, record.mode, record.allocation, until));
  on_step("claim");
  absl::StatusOr<ClaimAnswer> answer = ClaimWithRetry(record, {}, until, mount);
  if (!answer.ok()) return Annotate(answer.status(), "claim");
  return answer;
}

// Not synced: the claim is stored after the intent, so a power cut loses both or only the claim.
absl::Status Attachments::WriteIntent(AttachmentRecord& record, Clock::time_point until) {
  if (record.attach_path.empty()) return journal_.Put(record, Durability::kOrdered);
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold path, locks_.AttachPath(record.attach_path, until));
  if (const auto other = journal_.FindAttached(record.attach_path)) {
    return AlreadyExists("volume {} is attached at {} for {}: detach it first, or choose another path",
                         ToString(other->volume), Quote(record.attach_path), Quote(other->allocation));
  }
  MOORING_RETURN_IF_ERROR(volumes_.CheckAttachPath(record));
  return journal_.Put(record, Durability::kOrdered);
}

absl::StatusOr<ClaimAnswer> Attachments::ClaimWithRetry(const AttachmentRecord& record, const AttachRequest& asked,
                                                        Clock::time_point until, MountNow mount) {
  ClaimRequest request{.volume = record.volume,
                       .allocation = record.allocation,
                       .node = settings_.host,
                       .external_node_id = record.external_node_id,
                       .mode = record.mode,
                       .capability = record.capability,
                       .for_present_mount = mount == MountNow::kIsThere,
                       .seen = asked.seen};
  const Clock::time_point patience = std::min(until, Clock::now() + settings_.claim_patience);
  for (Clock::duration pause = settings_.claim_pause;; pause = std::min(2 * pause, settings_.longest_retry)) {
    absl::StatusOr<ClaimAnswer> answer = claims_.Take(request, until);
    if (!absl::IsUnavailable(answer.status()) && !absl::IsAborted(answer.status())) return answer;
    if (Clock::now() + pause >= patience) return answer;
    SleepUntil(stop_.get_token(), Clock::now() + pause);
    if (stop_.stop_requested()) return Stopping();
    MOORING_RETURN_IF_ERROR(CheckAwaited(asked.is_abandoned));
    request.seen = nullptr;  // too old by now
  }
}

absl::Status Attachments::MountClaimed(AttachmentRecord& record, const ClaimAnswer& answer,
                                       const IsAbandoned& is_abandoned, const OnStep& on_step,
                                       Clock::time_point until) {
  FillIn(record, answer);
  MOORING_RETURN_IF_ERROR(CheckPropagation(record.propagation, record.read_only));
  MOORING_RETURN_IF_ERROR(volumes_.Prepare(record, until));
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kOrdered));
  on_step("mount");
  MountContext context = ContextOf(answer);
  context.is_abandoned = is_abandoned;
  MOORING_RETURN_IF_ERROR(MountAt(record, context, until));
  MOORING_RETURN_IF_ERROR(CheckAwaited(is_abandoned));  // nobody would unmount it
  MOORING_RETURN_IF_ERROR(claims_.CheckHeld(answer));
  record.phase = AttachmentRecord::Phase::kMounted;
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kSynced));
  ExpandIfOwed(record, answer.volume, until);
  return absl::OkStatus();
}

bool Attachments::IsMountedFor(const Claim& claim) {
  const std::vector<AttachmentRecord> records = journal_.Of(claim.volume);
  const auto is_mounted = [&](const AttachmentRecord& record) {
    return record.allocation == claim.allocation && record.phase == AttachmentRecord::Phase::kMounted;
  };
  return std::any_of(records.begin(), records.end(), is_mounted) || HasMountFor(claim);
}

// An attachment without a target was not sent to its plugin yet.
bool Attachments::HasMountFor(const Claim& claim) {
  const std::vector<AttachmentRecord> records = journal_.Of(claim.volume);
  return std::any_of(records.begin(), records.end(), [&](const AttachmentRecord& record) {
    return record.allocation == claim.allocation && !record.target_path.empty() && volumes_.IsMountedAnywhere(record);
  });
}

// A mounted attachment counts as one with a claim: CheckClaims has asked, or this host takes no claims yet
// (CheckTakesClaims). An attach without a claim is prepared only if it has lost its claim meanwhile.
absl::Status Attachments::CheckNoStaleMount(const VolumeKey& volume) {
  for (const AttachmentRecord& record : journal_.Of(volume)) {
    if (record.phase == AttachmentRecord::Phase::kMounted || record.target_path.empty()) continue;
    MOORING_ASSIGN_OR_RETURN(const bool held, claims_.IsHeld(record.volume, record.mode, record.allocation));
    if (held || !volumes_.IsMountedAnywhere(record)) continue;
    return Unavailable(
        "the volume is still mounted here for {}, whose claim was freed while this host was unreachable: end what uses "
        "the volume there, and try again",
        Quote(record.allocation));
  }
  return absl::OkStatus();
}

absl::Status Attachments::MountAt(AttachmentRecord& record, const MountContext& context, Clock::time_point until) {
  const absl::Status status = volumes_.Mount(record, context, until);
  if (absl::IsResourceExhausted(status)) claims_.MarkExhausted(record.volume, Message(status));
  return status;
}

// The volume is attached already, so a failure is reported as an event and the expansion stays owed. The time is
// bounded, because the caller waits for the attach.
void Attachments::ExpandIfOwed(const AttachmentRecord& record, const Volume& volume, Clock::time_point until) {
  if (!volume.node_expansion_owed) return;
  const Clock::time_point patience = std::min(until, Clock::now() + kExpandTime);
  const auto expanded = volumes_.ExpandMounted(record, volume.capacity_bytes, volume.secrets, patience);
  if (absl::IsCancelled(expanded.status())) return;
  if (!expanded.ok()) {
    Report("not expanded", record, Annotate(expanded.status(), "it has its old size until the next attach"));
  } else if (*expanded) {
    claims_.NodeExpanded(volume.key, volume.capacity_bytes);
  }
}

// A step that failed may have taken effect in a plugin that did not answer, so every step is undone.
absl::Status Attachments::RollBack(AttachmentRecord& record, const absl::Status& why, const OnStep& on_step,
                                   Clock::time_point until) {
  record.phase = AttachmentRecord::Phase::kUnmounting;
  record.problem = Message(why);
  // If this fails the record stays an intent, which the next start undoes, too.
  journal_.Put(record, Durability::kOrdered).IgnoreError();
  std::string outcome = "there was no time left to undo it";
  if (Clock::now() < until) {
    const absl::Status undone = detacher_.Detach(record, on_step, until);
    if (undone.ok()) return absl::Status(why.code(), Message(why) + "; nothing is mounted for it any more");
    outcome = Message(undone);
  }
  queue_.Schedule(record, Clock::duration::zero());
  return absl::Status(why.code(), fmt::format("{}; it is undone in the background, and its claim stays until then: {}",
                                              Message(why), outcome));
}

absl::Status Attachments::Revive(AttachmentRecord& record, const OnStep& on_step, Clock::time_point look_until,
                                 Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const bool mounted, volumes_.HasMount(record, look_until));
  if (mounted && record.problem.empty()) return absl::OkStatus();
  std::optional<Volume> mounted_now;
  if (!mounted) {
    MOORING_ASSIGN_OR_RETURN(ClaimAnswer answer, ClaimAgain(record, MountNow::kIsToCome, on_step, until));
    on_step("mount");
    MOORING_RETURN_IF_ERROR(MountAt(record, ContextOf(answer), until));
    MOORING_RETURN_IF_ERROR(claims_.CheckHeld(answer));
    mounted_now = std::move(answer.volume);
  }
  record.problem.clear();
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kOrdered));
  if (mounted_now) ExpandIfOwed(record, *mounted_now, until);
  return absl::OkStatus();
}

}  // namespace mooring::manager
