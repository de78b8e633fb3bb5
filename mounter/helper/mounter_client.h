// A Mounter that turns each call into a request of proto/mounter.proto. A derived class carries the request to a server
// (AnswerTo, helper_server.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter.pb.h"
#include "mounter/helper/call_table.h"
#include "mounter/mounter.h"

namespace mooring {

class MounterClient : public Mounter {
 public:
  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Change(const ChangeRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override;
  absl::StatusOr<std::vector<ListedMount>> List(const std::string& path) override;
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override;

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status HoldLoop(const LoopInfo& loop) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status Flush(const std::string& device) override;
  absl::Status HoldDevice(const std::string& device) override;
  absl::Status ReleaseDevice(const std::string& device) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override;

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const FormatRequest& request) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<bool> IsInUse(const std::string& device) override;
  absl::StatusOr<std::string> HealthProblem(const std::string& mount_path) override;

  absl::Status Copy(const std::vector<ImageCopy>& copies) override;
  absl::Status Thaw(const std::string& image) override;
  absl::Status CopyTree(const std::string& source, const std::string& destination) override;
  absl::Status RemoveTree(const std::string& directory) override;
  absl::Status LimitDirectory(const std::string& directory, std::uint64_t bytes) override;
  absl::Status PrepareSubvolumes(const std::string& pool) override;
  absl::Status MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) override;
  absl::Status LimitSubvolume(const std::string& path, std::uint64_t bytes) override;
  absl::Status RemoveSubvolume(const std::string& path) override;
  absl::StatusOr<LvmReport> ReportLvm(const std::string& pool) override;
  absl::Status MakeLogicalVolume(const NewLogicalVolume& volume) override;
  absl::Status GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) override;
  absl::Status ActivateLogicalVolume(const LogicalVolumeName& volume) override;
  absl::Status RemoveLogicalVolume(const LogicalVolumeName& volume) override;
  absl::Status NoteRawLogicalVolume(const LogicalVolumeName& volume) override;
  absl::Status MakeEncrypted(const NewEncryptedVolume& volume) override;
  absl::StatusOr<EncryptedState> ReportEncrypted(const EncryptedVolume& volume) override;
  absl::StatusOr<EncryptedState> OpenEncrypted(const OpenRequest& request) override;
  absl::Status CloseEncrypted(const std::string& id) override;
  absl::Status ResizeEncrypted(const std::string& id) override;
  absl::Status NoteRawEncrypted(const EncryptedVolume& volume) override;
  absl::Status CheckNeeds(const Needs& needs) override;

  absl::StatusOr<bool> BindIf(const ConditionalBind& request) override;
  absl::StatusOr<bool> UnmountIf(const ConditionalUnmount& request) override;
  absl::StatusOr<Examination> Examine(const ExamineRequest& request) override;

 protected:
  // Handling of one call whose server ends or hangs.
  struct CallPolicy : calls::Handling {
    const std::string& path;  // the object of `doing`
  };

 private:
  // Sends the request and returns its answer. An answer that is an error is returned as that error.
  virtual absl::StatusOr<pb::Answer> Ask(pb::Request request, const CallPolicy& policy) = 0;

  // `path` is the object of the call, for messages and for the limit of hanging calls.
  template <typename Call, typename... Arguments>
  auto Execute(const Call& call, const std::string& path, const Arguments&... arguments);
};

}  // namespace mooring
