// The calls of Mounter that combine others.
#include "base/deadline.h"
#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mounter.h"

namespace mooring {
namespace {

bool IsExpected(const PathInfo& info, const ExpectedMount& expected) {
  if (!info.mount || !info.failure.empty()) return false;
  if (expected.device != 0 && info.device == expected.device) return true;
  if (info.loop) return !expected.label.empty() && info.loop->label == expected.label;
  if (info.mount->fs_type == "tmpfs") return !expected.label.empty() && info.mount->source == expected.label;
  return !expected.root_name.empty() && NameOf(info.mount->root) == expected.root_name &&
         (expected.root_inode == 0 || expected.root_inode == info.inode);
}

// Nobody waits for the call any more, so the caller believes that nothing was changed.
absl::Status CheckInTime(const std::string& path) {
  if (!DeadlineScope::HasPassed()) return absl::OkStatus();
  return absl::DeadlineExceededError("looking at " + Quote(path) + " took too long: nothing was changed");
}

}  // namespace

absl::StatusOr<ConditionalOutcome> Mounter::BindIf(const ConditionalBind& request) {
  ConditionalOutcome outcome;
  MOORING_ASSIGN_OR_RETURN(outcome.target, Find(request.bind.target));
  if (outcome.target.mount) return outcome;
  MOORING_ASSIGN_OR_RETURN(const PathInfo source, Find(request.bind.source));
  if (!IsExpected(source, request.source) || source.kind != PathInfo::Kind::kDirectory) return outcome;
  if (!request.source_fs_type.empty() && source.mount->fs_type != request.source_fs_type) return outcome;
  BindRequest bind = request.bind;
  bind.flags = Stricter(source.mount->flags, bind.flags);
  if (bind.flags.read_only != request.bind.flags.read_only) return outcome;
  MOORING_RETURN_IF_ERROR(CheckInTime(request.bind.target));
  MOORING_RETURN_IF_ERROR(Bind(bind));
  outcome.done = true;
  return outcome;
}

absl::StatusOr<ConditionalOutcome> Mounter::UnmountIf(const ConditionalUnmount& request) {
  ConditionalOutcome outcome;
  MOORING_ASSIGN_OR_RETURN(outcome.target, Find(request.unmount.target));
  const bool as_expected = outcome.target.mount ? IsExpected(outcome.target, request.target)
                                                : outcome.target.kind != PathInfo::Kind::kSymlink;
  if (!as_expected) return outcome;
  MOORING_RETURN_IF_ERROR(CheckInTime(request.unmount.target));
  MOORING_RETURN_IF_ERROR(Unmount(request.unmount));
  outcome.done = true;
  return outcome;
}

absl::StatusOr<Examination> Mounter::Examine(const ExamineRequest& request) {
  Examination seen;
  MOORING_ASSIGN_OR_RETURN(seen.info, Find(request.path));
  if (!IsExpected(seen.info, request.expected)) return seen;
  if (seen.info.kind != PathInfo::Kind::kBlockDevice) {
    MOORING_ASSIGN_OR_RETURN(seen.problem, HealthProblem(request.path));
  }
  const absl::StatusOr<StatsInfo> usage = Stats(request.path);
  if (!usage.ok() && seen.problem.empty()) return usage.status();
  seen.usage = usage.value_or(StatsInfo());
  seen.measured = true;
  return seen;
}

}  // namespace mooring
