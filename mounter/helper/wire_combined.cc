// The messages of the calls that combine others (Mounter in mounter/mounter.h).
#include "base/status.h"
#include "mounter/helper/wire.h"

namespace mooring::wire {
namespace {

absl::StatusOr<ExpectedMount> From(const pb::ExpectedMount& message) {
  ExpectedMount expected;
  MOORING_ASSIGN_OR_RETURN(expected.label, wire::From(message.label()));
  MOORING_ASSIGN_OR_RETURN(expected.root_name, wire::From(message.root_name()));
  expected.root_inode = message.root_inode();
  expected.root_device = message.root_device();
  expected.device = message.device();
  return expected;
}

void To(const ExpectedMount& expected, pb::ExpectedMount& message) {
  message.set_label(expected.label);
  message.set_root_name(expected.root_name);
  message.set_root_inode(expected.root_inode);
  message.set_root_device(expected.root_device);
  message.set_device(expected.device);
}

}  // namespace

absl::StatusOr<ConditionalBind> From(const pb::ConditionalBind& message) {
  ConditionalBind request;
  MOORING_ASSIGN_OR_RETURN(request.bind, From(message.bind()));
  MOORING_ASSIGN_OR_RETURN(request.source, From(message.source()));
  MOORING_ASSIGN_OR_RETURN(request.source_fs_type, From(message.source_fs_type()));
  return request;
}

void To(const ConditionalBind& request, pb::ConditionalBind& message) {
  To(request.bind, *message.mutable_bind());
  To(request.source, *message.mutable_source());
  message.set_source_fs_type(request.source_fs_type);
}

absl::StatusOr<ConditionalUnmount> From(const pb::ConditionalUnmount& message) {
  ConditionalUnmount request;
  MOORING_ASSIGN_OR_RETURN(request.unmount, From(message.unmount()));
  MOORING_ASSIGN_OR_RETURN(request.target, From(message.target()));
  return request;
}

void To(const ConditionalUnmount& request, pb::ConditionalUnmount& message) {
  To(request.unmount, *message.mutable_unmount());
  To(request.target, *message.mutable_target());
}

absl::StatusOr<bool> From(const pb::ConditionalOutcome& message) { return message.done(); }

void To(bool done, pb::ConditionalOutcome& message) { message.set_done(done); }

absl::StatusOr<ExamineRequest> From(const pb::ExamineRequest& message) {
  ExamineRequest request;
  MOORING_ASSIGN_OR_RETURN(request.path, From(message.path()));
  MOORING_ASSIGN_OR_RETURN(request.expected, From(message.expected()));
  return request;
}

void To(const ExamineRequest& request, pb::ExamineRequest& message) {
  message.set_path(request.path);
  To(request.expected, *message.mutable_expected());
}

absl::StatusOr<Examination> From(const pb::Examination& message) {
  Examination seen;
  MOORING_ASSIGN_OR_RETURN(seen.info, From(message.info()));
  seen.measured = message.measured();
  MOORING_ASSIGN_OR_RETURN(seen.usage, From(message.usage()));
  seen.problem = message.problem();
  return seen;
}

void To(const Examination& seen, pb::Examination& message) {
  To(seen.info, *message.mutable_info());
  message.set_measured(seen.measured);
  To(seen.usage, *message.mutable_usage());
  message.set_problem(seen.problem);
}

}  // namespace mooring::wire
