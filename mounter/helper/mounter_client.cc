#include "mounter/helper/mounter_client.h"

#include <type_traits>
#include <utility>

#include "mounter/helper/wire.h"

namespace mooring {
namespace {

template <typename Message>
auto ResultOf(absl::StatusOr<pb::Answer> answer, Message* (pb::Answer::*field)())
    -> decltype(wire::From(*((*answer).*field)())) {
  if (!answer.ok()) return answer.status();
  return wire::From(*((*answer).*field)());
}

absl::StatusOr<std::string> ResultOf(absl::StatusOr<pb::Answer> answer, std::string* (pb::Answer::*field)()) {
  if (!answer.ok()) return answer.status();
  return std::move(*((*answer).*field)());
}

}  // namespace

template <typename Call, typename... Arguments>
auto MounterClient::Execute(const Call& call, const std::string& path, const Arguments&... arguments) {
  pb::Request request;
  wire::To(arguments..., *(request.*call.arguments)());
  absl::StatusOr<pb::Answer> answer = Ask(std::move(request), {call.handling, path});
  if constexpr (std::is_same_v<decltype(call.result), void* (pb::Answer::*)()>) {
    return answer.status();
  } else {
    return ResultOf(std::move(answer), call.result);
  }
}

absl::Status MounterClient::Mount(const MountRequest& request) {
  return Execute(calls::kMount, request.target, request);
}

absl::Status MounterClient::Bind(const BindRequest& request) { return Execute(calls::kBind, request.target, request); }

absl::Status MounterClient::Change(const ChangeRequest& request) {
  return Execute(calls::kChange, request.target, request);
}

absl::Status MounterClient::Unmount(const UnmountRequest& request) {
  return Execute(calls::kUnmount, request.target, request);
}

absl::StatusOr<PathInfo> MounterClient::Find(const std::string& path) { return Execute(calls::kFind, path, path); }

absl::StatusOr<std::vector<ListedMount>> MounterClient::List(const std::string& path) {
  return Execute(calls::kList, path, path);
}

absl::StatusOr<StatsInfo> MounterClient::Stats(const std::string& path) { return Execute(calls::kStats, path, path); }

absl::StatusOr<LoopInfo> MounterClient::AttachLoop(const AttachLoopRequest& request) {
  return Execute(calls::kAttachLoop, request.backing_file, request);
}

absl::Status MounterClient::HoldLoop(const LoopInfo& loop) { return Execute(calls::kHoldLoop, loop.device, loop); }

absl::Status MounterClient::DetachLoop(const LoopInfo& loop) { return Execute(calls::kDetachLoop, loop.device, loop); }

absl::Status MounterClient::Flush(const std::string& device) { return Execute(calls::kFlush, device, device); }

absl::Status MounterClient::HoldDevice(const std::string& device) {
  return Execute(calls::kHoldDevice, device, device);
}

absl::Status MounterClient::ReleaseDevice(const std::string& device) {
  return Execute(calls::kReleaseDevice, device, device);
}

absl::Status MounterClient::ResizeLoop(const LoopInfo& loop) { return Execute(calls::kResizeLoop, loop.device, loop); }

absl::Status MounterClient::TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  return Execute(calls::kTuneLoop, loop.device, loop, tuning);
}

absl::StatusOr<std::vector<LoopInfo>> MounterClient::FindLoops(const std::string& backing_file) {
  return Execute(calls::kFindLoops, backing_file, backing_file);
}

absl::StatusOr<FilesystemInfo> MounterClient::Probe(const std::string& path) {
  return Execute(calls::kProbe, path, path);
}

absl::Status MounterClient::Format(const FormatRequest& request) {
  return Execute(calls::kFormat, request.path, request);
}

absl::Status MounterClient::Check(const std::string& path, const std::string& fs_type) {
  return Execute(calls::kCheck, path, path, fs_type);
}

absl::Status MounterClient::Grow(const std::string& path, const std::string& fs_type) {
  return Execute(calls::kGrow, path, path, fs_type);
}

absl::StatusOr<bool> MounterClient::IsInUse(const std::string& device) {
  return Execute(calls::kIsInUse, device, device);
}

absl::StatusOr<std::string> MounterClient::HealthProblem(const std::string& mount_path) {
  return Execute(calls::kHealthProblem, mount_path, mount_path);
}

absl::Status MounterClient::Copy(const std::vector<ImageCopy>& copies) {
  return copies.empty() ? absl::OkStatus() : Execute(calls::kCopy, copies.front().source, copies);
}

absl::Status MounterClient::Thaw(const std::string& image) { return Execute(calls::kThaw, image, image); }

absl::Status MounterClient::CopyTree(const std::string& source, const std::string& destination) {
  return Execute(calls::kCopyTree, source, source, destination);
}

absl::Status MounterClient::RemoveTree(const std::string& directory) {
  return Execute(calls::kRemoveTree, directory, directory);
}

absl::Status MounterClient::LimitDirectory(const std::string& directory, std::uint64_t bytes) {
  return Execute(calls::kLimitDirectory, directory, directory, bytes);
}

absl::Status MounterClient::PrepareSubvolumes(const std::string& pool) {
  return Execute(calls::kPrepareSubvolumes, pool, pool);
}

absl::Status MounterClient::MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) {
  return subvolumes.empty() ? absl::OkStatus() : Execute(calls::kMakeSubvolumes, subvolumes.front().path, subvolumes);
}

absl::Status MounterClient::LimitSubvolume(const std::string& path, std::uint64_t bytes) {
  return Execute(calls::kLimitSubvolume, path, path, bytes);
}

absl::Status MounterClient::RemoveSubvolume(const std::string& path) {
  return Execute(calls::kRemoveSubvolume, path, path);
}

absl::StatusOr<LvmReport> MounterClient::ReportLvm(const std::string& pool) {
  return Execute(calls::kReportLvm, pool, pool);
}

absl::Status MounterClient::MakeLogicalVolume(const NewLogicalVolume& volume) {
  return Execute(calls::kMakeLogicalVolume, volume.name, volume);
}

absl::Status MounterClient::GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) {
  return Execute(calls::kGrowLogicalVolume, volume.name, volume, bytes);
}

absl::Status MounterClient::ActivateLogicalVolume(const LogicalVolumeName& volume) {
  return Execute(calls::kActivateLogicalVolume, volume.name, volume);
}

absl::Status MounterClient::RemoveLogicalVolume(const LogicalVolumeName& volume) {
  return Execute(calls::kRemoveLogicalVolume, volume.name, volume);
}

absl::Status MounterClient::NoteRawLogicalVolume(const LogicalVolumeName& volume) {
  return Execute(calls::kNoteRawLogicalVolume, volume.name, volume);
}

absl::Status MounterClient::MakeEncrypted(const NewEncryptedVolume& volume) {
  return Execute(calls::kMakeEncrypted, volume.volume.carrier, volume);
}

absl::StatusOr<EncryptedState> MounterClient::ReportEncrypted(const EncryptedVolume& volume) {
  return Execute(calls::kReportEncrypted, volume.carrier, volume);
}

absl::StatusOr<EncryptedState> MounterClient::OpenEncrypted(const OpenRequest& request) {
  return Execute(calls::kOpenEncrypted, request.volume.carrier, request);
}

absl::Status MounterClient::CloseEncrypted(const std::string& id) { return Execute(calls::kCloseEncrypted, id, id); }

absl::Status MounterClient::ResizeEncrypted(const std::string& id) { return Execute(calls::kResizeEncrypted, id, id); }

absl::Status MounterClient::NoteRawEncrypted(const EncryptedVolume& volume) {
  return Execute(calls::kNoteRawEncrypted, volume.carrier, volume);
}

absl::Status MounterClient::CheckNeeds(const Needs& needs) {
  return Execute(calls::kNeeds, needs.seen_outside.empty() ? "/dev" : needs.seen_outside.front(), needs);
}

absl::StatusOr<bool> MounterClient::BindIf(const ConditionalBind& request) {
  return Execute(calls::kBindIf, request.bind.target, request);
}

absl::StatusOr<bool> MounterClient::UnmountIf(const ConditionalUnmount& request) {
  return Execute(calls::kUnmountIf, request.unmount.target, request);
}

absl::StatusOr<Examination> MounterClient::Examine(const ExamineRequest& request) {
  return Execute(calls::kExamine, request.path, request);
}

}  // namespace mooring
