// A thread-safe Mounter that keeps its state in memory (FakeKernel). It logs its calls, injects errors, and has gates
// that hold a call until the test opens them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tests/fakes/fake_kernel.h"

namespace mooring::testing {

// Holds calls until it is opened.
class Gate {
 public:
  bool WaitUntilReached(std::chrono::seconds patience = std::chrono::seconds(20));
  void Open();
  void Pass();  // for the calls that are held

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool open_ = false;
};

class FakeMounter : public Mounter {
 public:
  static constexpr std::string_view kAnyCall = "";

  // Runs `work` with the FakeKernel under the lock.
  template <typename Work>
  auto With(Work work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return work(kernel_);
  }
  std::string Describe() {
    return With([](FakeKernel& kernel) { return kernel.Describe(); });
  }

  // The nth call from now (1: the next) of `operation` ("Mount", "FindLoops", kAnyCall, ...) fails and does nothing.
  // Several may be pending.
  void Fail(std::string_view operation, absl::Status status, int nth = 1);
  void ClearFaults();
  bool HasFaults();  // some have not happened yet

  // Calls of `operation` whose first path contains `path` stop at the gate.
  std::shared_ptr<Gate> Hold(std::string_view operation, std::string_view path = "");
  void Delay(std::string_view operation, std::chrono::milliseconds time);  // each call takes that long

  // The calls since the start or ClearLog, in order: "Format /images/a.img ext4".
  std::vector<std::string> Calls(std::string_view operation = kAnyCall);
  void ClearLog();
  BindRequest last_bind();

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

  // Made of the single calls, so that a test sees and fails each of them.
  absl::StatusOr<bool> BindIf(const ConditionalBind& request) override;
  absl::StatusOr<bool> UnmountIf(const ConditionalUnmount& request) override;
  absl::StatusOr<Examination> Examine(const ExamineRequest& request) override;

 private:
  struct Fault {
    std::string operation;
    int calls_left = 1;
    absl::Status status;
  };
  struct Held {
    std::string operation;
    std::string path;
    std::shared_ptr<Gate> gate;
  };
  struct Slow {
    std::string operation;
    std::chrono::milliseconds time;
  };

  // The log, the gates, the delays and the injected error of one call.
  absl::Status Enter(std::string_view operation, const std::string& path, const std::string& rest = "");

  std::mutex mutex_;  // guards all members below
  FakeKernel kernel_;
  std::vector<std::string> log_;
  std::vector<Fault> faults_;
  std::vector<Held> held_;
  std::vector<Slow> slow_;
  BindRequest last_bind_;
};

}  // namespace mooring::testing
