// Converts the structs of mounter/mounter.h to the messages of proto/mounter.proto, and back.
//
// Received messages are checked for their form only: sizes, enumerations, NUL in a text. Whether a request is allowed
// is decided in mounter/guard/guarded_mounter.h.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter.pb.h"
#include "mounter/mounter.h"

namespace mooring::wire {

// In bytes of a message. A request holds a few paths; an answer may list 100,000 mounts.
inline constexpr std::size_t kMostRequest = std::size_t{64} << 10U;
inline constexpr std::size_t kMostAnswer = std::size_t{64} << 20U;
inline constexpr std::size_t kMostText = 4096;  // PATH_MAX, in bytes; for every text of a request
inline constexpr int kMostOptions = 64;
inline constexpr int kMostCopies = 256;

// INVALID_ARGUMENT: an unknown enumeration value, a text with NUL or too long, too many options.
absl::Status CheckTexts(std::initializer_list<const std::string*> texts);
absl::StatusOr<std::string> From(const std::string& text);
absl::StatusOr<MountRequest> From(const pb::MountRequest& message);
absl::StatusOr<BindRequest> From(const pb::BindRequest& message);
absl::StatusOr<UnmountRequest> From(const pb::UnmountRequest& message);
absl::StatusOr<ChangeRequest> From(const pb::ChangeRequest& message);
absl::StatusOr<std::vector<ImageCopy>> From(const pb::CopyRequest& message);
absl::StatusOr<std::pair<std::string, std::string>> From(const pb::CopyTreeRequest& message);
absl::StatusOr<std::vector<NewSubvolume>> From(const pb::MakeSubvolumesRequest& message);
absl::StatusOr<std::pair<std::string, std::uint64_t>> From(const pb::LimitRequest& message);
absl::StatusOr<LvmReport> From(const pb::LvmReport& message);
absl::StatusOr<NewLogicalVolume> From(const pb::NewLogicalVolume& message);
absl::StatusOr<LogicalVolumeName> From(const pb::LogicalVolumeName& message);
absl::StatusOr<std::pair<LogicalVolumeName, std::uint64_t>> From(const pb::GrowLogicalVolumeRequest& message);
absl::StatusOr<EncryptedVolume> From(const pb::EncryptedVolume& message);
absl::StatusOr<NewEncryptedVolume> From(const pb::NewEncryptedVolume& message);
absl::StatusOr<EncryptedState> From(const pb::EncryptedState& message);
absl::StatusOr<OpenRequest> From(const pb::OpenRequest& message);
absl::StatusOr<Needs> From(const pb::NeedsRequest& message);
absl::StatusOr<AttachLoopRequest> From(const pb::AttachLoopRequest& message);
absl::StatusOr<LoopInfo> From(const pb::LoopInfo& message);
absl::StatusOr<std::pair<LoopInfo, LoopTuning>> From(const pb::TuneLoopRequest& message);
absl::StatusOr<FormatRequest> From(const pb::FormatRequest& message);
absl::StatusOr<std::pair<std::string, std::string>> From(const pb::FilesystemRequest& message);
absl::StatusOr<PathInfo> From(const pb::PathInfo& message);
absl::StatusOr<StatsInfo> From(const pb::StatsInfo& message);
absl::StatusOr<FilesystemInfo> From(const pb::FilesystemInfo& message);
absl::StatusOr<std::vector<ListedMount>> From(const pb::MountInfos& message);
absl::StatusOr<std::vector<LoopInfo>> From(const pb::LoopInfos& message);
absl::StatusOr<ConditionalBind> From(const pb::ConditionalBind& message);
absl::StatusOr<ConditionalUnmount> From(const pb::ConditionalUnmount& message);
absl::StatusOr<bool> From(const pb::ConditionalOutcome& message);
absl::StatusOr<ExamineRequest> From(const pb::ExamineRequest& message);
absl::StatusOr<Examination> From(const pb::Examination& message);

void To(const std::string& text, std::string& message);
void To(const MountRequest& request, pb::MountRequest& message);
void To(const BindRequest& request, pb::BindRequest& message);
void To(const UnmountRequest& request, pb::UnmountRequest& message);
void To(const ChangeRequest& request, pb::ChangeRequest& message);
void To(const std::vector<ImageCopy>& copies, pb::CopyRequest& message);
void To(const std::string& source, const std::string& destination, pb::CopyTreeRequest& message);
void To(const std::vector<NewSubvolume>& subvolumes, pb::MakeSubvolumesRequest& message);
void To(const std::string& path, std::uint64_t bytes, pb::LimitRequest& message);
void To(const LvmReport& report, pb::LvmReport& message);
void To(const NewLogicalVolume& volume, pb::NewLogicalVolume& message);
void To(const LogicalVolumeName& volume, pb::LogicalVolumeName& message);
void To(const LogicalVolumeName& volume, std::uint64_t bytes, pb::GrowLogicalVolumeRequest& message);
void To(const EncryptedVolume& volume, pb::EncryptedVolume& message);
void To(const NewEncryptedVolume& volume, pb::NewEncryptedVolume& message);
void To(const EncryptedState& state, pb::EncryptedState& message);
void To(const OpenRequest& request, pb::OpenRequest& message);
void To(const Needs& needs, pb::NeedsRequest& message);
void To(const AttachLoopRequest& request, pb::AttachLoopRequest& message);
void To(const LoopInfo& info, pb::LoopInfo& message);
void To(const LoopInfo& loop, const LoopTuning& tuning, pb::TuneLoopRequest& message);
void To(const FormatRequest& request, pb::FormatRequest& message);
void To(const std::string& path, const std::string& fs_type, pb::FilesystemRequest& message);
void To(const PathInfo& info, pb::PathInfo& message);
void To(const StatsInfo& info, pb::StatsInfo& message);
void To(const FilesystemInfo& info, pb::FilesystemInfo& message);
void To(const std::vector<ListedMount>& infos, pb::MountInfos& message);
void To(const std::vector<LoopInfo>& infos, pb::LoopInfos& message);
void To(const ConditionalBind& request, pb::ConditionalBind& message);
void To(const ConditionalUnmount& request, pb::ConditionalUnmount& message);
void To(bool done, pb::ConditionalOutcome& message);
void To(const ExamineRequest& request, pb::ExamineRequest& message);
void To(const Examination& seen, pb::Examination& message);

absl::Status StatusOf(const pb::Answer& answer);
void To(const absl::Status& status, pb::Answer& answer);  // `status` is not OK

}  // namespace mooring::wire
