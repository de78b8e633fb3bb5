// Attaching, and what has to be undone where it fails.
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

namespace mooring::manager {
namespace {

// (h): read-only if the volume, the request or the mount says so.
bool IsReadOnly(const AttachmentRecord& record) {
  return record.read_only || record.mode == ClaimMode::kRead || IsReader(record.capability.access) ||
         SaysReadOnly(record.options);
}

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
  MOORING_RETURN_IF_ERROR(CheckName("allocation", record.allocation));
  MOORING_RETURN_IF_ERROR(CheckName("request", record.request));
  MOORING_RETURN_IF_ERROR(CheckPropagation(record.propagation, record.read_only));
  if (!request.attach_path.empty()) {
    MOORING_ASSIGN_OR_RETURN(record.attach_path, NormalisePath("attach path", request.attach_path));
  }
  return record;
}

// What is asked for without a word about a mount option takes the volume's, whatever they are.
bool AreOptionsIn(const MountOptions& asked, const MountOptions& options) {
  return (asked.fs_type.empty() || asked.fs_type == options.fs_type) &&
         (asked.flags.empty() || AreEqual({"", asked.flags}, {"", options.flags}));
}

// The fields in which they differ; of mount flags not what they are.
std::string Difference(const AttachmentRecord& asked, const AttachmentRecord& there) {
  std::string text;
  const auto compare = [&](bool same, const std::string& words) {
    if (!same) text += (text.empty() ? "" : ", ") + words;
  };
  compare(asked.volume == there.volume, "volume " + ToString(there.volume));
  compare(asked.mode == there.mode, fmt::format("mode {}", ToString(there.mode)));
  compare(asked.capability.access == there.capability.access,
          fmt::format("access mode {}", ToString(there.capability.access)));
  compare(asked.capability.attachment == there.capability.attachment,
          fmt::format("attachment mode {}", ToString(there.capability.attachment)));
  compare(AreOptionsIn(asked.options, there.options), "other mount options");
  compare(asked.read_only == there.read_only || SaysReadOnly(there.options),
          there.read_only ? "read-only" : "writable");
  compare(asked.propagation == there.propagation, "another propagation");
  compare(asked.attach_path == there.attach_path,
          there.attach_path.empty() ? "no attach path" : "attach path " + Quote(there.attach_path));
  return text;
}

void FillIn(AttachmentRecord& record, const ClaimAnswer& answer) {
  record.plugin = answer.volume.plugin;
  record.external_id = answer.volume.external_id;
  record.external_node_id = answer.claim.external_node_id;
  const MountOptions staged = StagedOptions(answer.volume.mount_options, record.options);
  record.options = Override(answer.volume.mount_options, record.options);
  record.read_only = IsReadOnly(record);
  // As the controller publishes it: while that mode is in use, it is the one that all claims have to agree with.
  record.staged_as = {.access = answer.volume.in_use.value_or(record.capability).access, .options = staged};
}

MountContext ContextOf(const ClaimAnswer& answer) {
  return {.volume_context = answer.volume.context,
          .publish_context = answer.claim.publish_context,
          .secrets = answer.volume.secrets};
}

std::string Name(const AttachmentRecord& record) {
  return fmt::format("volume {} for {}", ToString(record.volume), Quote(record.allocation));
}

// A manager that stops takes nothing back: an intent stays.
absl::Status CutShort(const AttachmentRecord& record) {
  return Annotate(Stopping(),
                  fmt::format("attach {} was cut short, and is taken back when the manager is back", Name(record)));
}

}  // namespace

absl::StatusOr<AttachmentRecord> Attachments::Attach(const AttachRequest& request, const OnStep& asked_step,
                                                     Clock::time_point until) {
  const OnStep on_step = asked_step ? asked_step : [](const std::string&) {};
  MOORING_ASSIGN_OR_RETURN(const AttachmentRecord record, RecordOf(request));
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, Lock(KeyOf(record), until));
  std::optional<AttachmentRecord> there = journal_.Find(record.allocation, record.request);
  if (!there) return AttachAnew(record, on_step, until);
  if (there->phase != AttachmentRecord::Phase::kMounted) {  // what was begun to be undone is undone first
    MOORING_RETURN_IF_ERROR(Annotate(Finish(*there, on_step, until), "what was there before is being detached still"));
    return AttachAnew(record, on_step, until);
  }
  if (const std::string difference = Difference(record, *there); !difference.empty()) {
    return AlreadyExists(fmt::format("{} has {} attached in another way: {}; detach it first", Quote(record.allocation),
                                     Quote(record.request), difference));
  }
  MOORING_RETURN_IF_ERROR(Annotate(Revive(*there, on_step, until, until), "attach " + Name(record)));
  return *there;
}

absl::StatusOr<AttachmentRecord> Attachments::AttachAnew(AttachmentRecord record, const OnStep& on_step,
                                                         Clock::time_point until) {
  const absl::StatusOr<ClaimAnswer> answer = IntendAndClaim(record, on_step, until);
  if (absl::IsCancelled(answer.status())) return CutShort(record);
  MOORING_RETURN_IF_ERROR(Annotate(answer.status(), "attach " + Name(record)));
  const absl::Status status = MountClaimed(record, *answer, on_step, until);
  if (absl::IsCancelled(status)) return CutShort(record);
  if (!status.ok()) return TakeBack(record, Annotate(status, "attach " + Name(record)), on_step, until);
  return record;
}

// The claim's lock is held from the intent on: who gives the same claim up meanwhile sees neither or both.
absl::StatusOr<ClaimAnswer> Attachments::IntendAndClaim(AttachmentRecord& record, const OnStep& on_step,
                                                        Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockClaim(record, until));
  MOORING_RETURN_IF_ERROR(WriteIntent(record, until));
  on_step("claim");
  absl::StatusOr<ClaimAnswer> answer = Claim(record, until);
  if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
  // Where even this fails, or something of the claim is left, the intent is taken back as one that a killed manager
  // left.
  const bool owed = claims_.IsTakingBackOwed(record.volume, record.mode, record.allocation);
  if (owed || !journal_.Remove(record, Durability::kOrdered).ok()) {
    Schedule(record, settings_.first_retry, settings_.first_retry);
  }
  return Annotate(answer.status(), "claim");
}

absl::StatusOr<ClaimAnswer> Attachments::ClaimAgain(const AttachmentRecord& record, const OnStep& on_step,
                                                    Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockClaim(record, until));
  on_step("claim");
  absl::StatusOr<ClaimAnswer> answer = Claim(record, until);
  if (!answer.ok()) return Annotate(answer.status(), "claim");
  return answer;
}

// Only the manager's death is to be survived: the claim is written after it, and a power cut loses both or none.
absl::Status Attachments::WriteIntent(AttachmentRecord& record, Clock::time_point until) {
  if (record.attach_path.empty()) return journal_.Put(record, Durability::kOrdered);
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold path,
                           locks_.Acquire("path" + record.attach_path, "attach path", until));
  if (const auto other = journal_.FindAttached(record.attach_path)) {
    return AlreadyExists(fmt::format("{} has volume {} for {}: nothing is stacked on it", Quote(record.attach_path),
                                     ToString(other->volume), Quote(other->allocation)));
  }
  MOORING_RETURN_IF_ERROR(volumes_.CheckPlace(record));
  return journal_.Put(record, Durability::kOrdered);
}

absl::StatusOr<ClaimAnswer> Attachments::Claim(const AttachmentRecord& record, Clock::time_point until) {
  const ClaimRequest request{.volume = record.volume,
                             .allocation = record.allocation,
                             .node = settings_.host,
                             .external_node_id = record.external_node_id,
                             .mode = record.mode,
                             .capability = record.capability};
  const Clock::time_point patience = std::min(until, Clock::now() + settings_.claim_patience);
  for (Clock::duration pause = settings_.claim_pause;; pause = std::min(2 * pause, settings_.longest_retry)) {
    absl::StatusOr<ClaimAnswer> answer = claims_.Claim(request, until);
    if (!absl::IsUnavailable(answer.status()) && !absl::IsAborted(answer.status())) return answer;
    if (Clock::now() + pause >= patience) return answer;
    if (!Sleep(pause)) return Stopping();
  }
}

// False: the manager is stopping.
bool Attachments::Sleep(Clock::duration time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return !changed_.wait_until(lock, Clock::now() + time, [this] { return stopping_; });
}

absl::Status Attachments::MountClaimed(AttachmentRecord& record, const ClaimAnswer& answer, const OnStep& on_step,
                                       Clock::time_point until) {
  FillIn(record, answer);
  MOORING_RETURN_IF_ERROR(CheckPropagation(record.propagation, record.read_only));
  MOORING_RETURN_IF_ERROR(volumes_.Prepare(record, until));
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kOrdered));
  on_step("mount");
  MOORING_RETURN_IF_ERROR(MountAt(record, answer, until));
  record.phase = AttachmentRecord::Phase::kMounted;
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kSynced));
  ExpandIfOwed(record, answer.volume, until);
  return absl::OkStatus();
}

absl::Status Attachments::MountAt(AttachmentRecord& record, const ClaimAnswer& answer, Clock::time_point until) {
  const absl::Status status = volumes_.Mount(record, ContextOf(answer), until);
  if (absl::IsResourceExhausted(status)) claims_.MarkExhausted(record.volume, Message(status));
  return status;
}

// It can be used as it is, and is written down: what fails is told, and stays owed. One that cannot grow now does not
// hold up whoever waits for it.
void Attachments::ExpandIfOwed(const AttachmentRecord& record, const Volume& volume, Clock::time_point until) {
  if (!volume.node_expansion_owed) return;
  const Clock::time_point patience = std::min(until, Clock::now() + settings_.expand_time);
  const auto expanded = volumes_.ExpandMounted(record, volume.capacity_bytes, volume.secrets, patience);
  if (absl::IsCancelled(expanded.status())) return;
  if (!expanded.ok()) {
    Tell("not expanded", record, Annotate(expanded.status(), "it has its old size until the next attach"));
  } else if (*expanded) {
    claims_.NodeExpanded(volume.key, volume.capacity_bytes);
  }
}

// From here on it is a detach. What it was that failed may have been done, or be done yet, by a plugin that did not
// answer: so it is taken back in full, whichever step it was.
absl::Status Attachments::TakeBack(AttachmentRecord& record, const absl::Status& why, const OnStep& on_step,
                                   Clock::time_point until) {
  record.phase = AttachmentRecord::Phase::kUnmounting;
  record.problem = Message(why);
  // Not written: then it is an intent still, which means the same.
  journal_.Put(record, Durability::kOrdered).IgnoreError();
  std::string outcome = "there was no time left to take it back";
  if (Clock::now() < until) {
    const absl::Status undone = Finish(record, on_step, until);
    if (undone.ok()) return absl::Status(why.code(), Message(why) + "; nothing of it is left");
    outcome = Message(undone);
  }
  Schedule(record, settings_.first_retry, Clock::duration::zero());
  return absl::Status(why.code(), fmt::format("{}; it is taken back in the background, and its claim stays until that "
                                              "is done: {}",
                                              Message(why), outcome));
}

absl::Status Attachments::Revive(AttachmentRecord& record, const OnStep& on_step, Clock::time_point look_until,
                                 Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const bool mounted, volumes_.HasMount(record, look_until));
  if (mounted && record.problem.empty()) return absl::OkStatus();
  std::optional<Volume> mounted_now;
  if (!mounted) {
    MOORING_ASSIGN_OR_RETURN(ClaimAnswer answer, ClaimAgain(record, on_step, until));
    on_step("mount");
    MOORING_RETURN_IF_ERROR(MountAt(record, answer, until));
    mounted_now = std::move(answer.volume);
  }
  record.problem.clear();
  MOORING_RETURN_IF_ERROR(journal_.Put(record, Durability::kOrdered));
  if (mounted_now) ExpandIfOwed(record, *mounted_now, until);
  return absl::OkStatus();
}

}  // namespace mooring::manager
