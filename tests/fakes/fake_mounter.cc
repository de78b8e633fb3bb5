#include "tests/fakes/fake_mounter.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "mounter/conditions.h"

namespace mooring::testing {

bool Gate::WaitUntilReached(std::chrono::seconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_until(lock, std::chrono::steady_clock::now() + patience, [this] { return reached_; });
}

void Gate::Open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::Pass() {
  std::unique_lock<std::mutex> lock(mutex_);
  reached_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return open_; });
}

void FakeMounter::Fail(std::string_view operation, absl::Status status, int nth) {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_.push_back({std::string(operation), nth, std::move(status)});
}

void FakeMounter::ClearFaults() {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_.clear();
}

bool FakeMounter::HasFaults() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !faults_.empty();
}

std::shared_ptr<Gate> FakeMounter::Hold(std::string_view operation, std::string_view path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_.push_back({std::string(operation), std::string(path), std::make_shared<Gate>()});
  return held_.back().gate;
}

void FakeMounter::Delay(std::string_view operation, std::chrono::milliseconds time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  slow_.push_back({std::string(operation), time});
}

std::vector<std::string> FakeMounter::Calls(std::string_view operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> calls = log_;
  std::erase_if(calls, [operation](const std::string& call) {
    return operation != kAnyCall && !call.starts_with(std::string(operation) + " ");
  });
  return calls;
}

void FakeMounter::ClearLog() {
  const std::lock_guard<std::mutex> lock(mutex_);
  log_.clear();
}

BindRequest FakeMounter::last_bind() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_bind_;
}

absl::Status FakeMounter::Enter(std::string_view operation, const std::string& path, const std::string& rest) {
  const auto concerns = [operation](const std::string& other) { return other == kAnyCall || other == operation; };
  std::vector<std::shared_ptr<Gate>> gates;
  std::chrono::milliseconds delay{0};
  absl::Status outcome;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.push_back(fmt::format("{} {}{}{}", operation, path, rest.empty() ? "" : " ", rest));
    for (Fault& fault : faults_) {
      if (concerns(fault.operation) && --fault.calls_left == 0) outcome = fault.status;
    }
    std::erase_if(faults_, [](const Fault& fault) { return fault.calls_left == 0; });
    for (const Held& held : held_) {
      if (concerns(held.operation) && path.find(held.path) != std::string::npos) gates.push_back(held.gate);
    }
    for (const Slow& slow : slow_) {
      if (concerns(slow.operation)) delay += slow.time;
    }
  }
  for (const std::shared_ptr<Gate>& gate : gates) gate->Pass();
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  return outcome;
}

absl::Status FakeMounter::Mount(const MountRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("Mount", request.target, request.source));
  return With([&](FakeKernel& kernel) { return kernel.Mount(request); });
}

absl::Status FakeMounter::Bind(const BindRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("Bind", request.target, request.source));
  return With([&](FakeKernel& kernel) {
    last_bind_ = request;
    return kernel.Bind(request);
  });
}

absl::Status FakeMounter::Change(const ChangeRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("Change", request.target));
  return With([&](FakeKernel& kernel) { return kernel.Change(request); });
}

absl::Status FakeMounter::Unmount(const UnmountRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("Unmount", request.target, request.remove_target ? "remove" : ""));
  return With([&](FakeKernel& kernel) { return kernel.Unmount(request); });
}

absl::StatusOr<PathInfo> FakeMounter::Find(const std::string& path) {
  MOORING_RETURN_IF_ERROR(Enter("Find", path));
  return With([&](FakeKernel& kernel) { return kernel.Find(path); });
}

absl::StatusOr<std::vector<ListedMount>> FakeMounter::List(const std::string& path) {
  MOORING_RETURN_IF_ERROR(Enter("List", path));
  return With([&](FakeKernel& kernel) { return kernel.List(path); });
}

absl::StatusOr<StatsInfo> FakeMounter::Stats(const std::string& path) {
  MOORING_RETURN_IF_ERROR(Enter("Stats", path));
  return With([&](FakeKernel& kernel) { return kernel.Stats(path); });
}

absl::StatusOr<LoopInfo> FakeMounter::AttachLoop(const AttachLoopRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("AttachLoop", request.backing_file, request.label));
  return With([&](FakeKernel& kernel) { return kernel.AttachLoop(request); });
}

absl::Status FakeMounter::HoldLoop(const LoopInfo& loop) {
  MOORING_RETURN_IF_ERROR(Enter("HoldLoop", loop.device));
  return With([&](FakeKernel& kernel) { return kernel.HoldLoop(loop); });
}

absl::Status FakeMounter::Flush(const std::string& device) { return Enter("Flush", device); }

absl::Status FakeMounter::HoldDevice(const std::string& device) { return Enter("HoldDevice", device); }

absl::Status FakeMounter::ReleaseDevice(const std::string& device) { return Enter("ReleaseDevice", device); }

absl::Status FakeMounter::DetachLoop(const LoopInfo& loop) {
  MOORING_RETURN_IF_ERROR(Enter("DetachLoop", loop.device));
  return With([&](FakeKernel& kernel) { return kernel.DetachLoop(loop); });
}

absl::Status FakeMounter::ResizeLoop(const LoopInfo& loop) {
  MOORING_RETURN_IF_ERROR(Enter("ResizeLoop", loop.device));
  return With([&](FakeKernel& kernel) { return kernel.ResizeLoop(loop); });
}

absl::Status FakeMounter::TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  MOORING_RETURN_IF_ERROR(Enter("TuneLoop", loop.device, fmt::format("{}", tuning.read_ahead_bytes)));
  return With([&](FakeKernel& kernel) { return kernel.TuneLoop(loop, tuning); });
}

absl::StatusOr<std::vector<LoopInfo>> FakeMounter::FindLoops(const std::string& backing_file) {
  MOORING_RETURN_IF_ERROR(Enter("FindLoops", backing_file));
  return With([&](FakeKernel& kernel) { return kernel.FindLoops(backing_file); });
}

absl::StatusOr<FilesystemInfo> FakeMounter::Probe(const std::string& path) {
  MOORING_RETURN_IF_ERROR(Enter("Probe", path));
  return With([&](FakeKernel& kernel) { return kernel.Probe(path); });
}

absl::Status FakeMounter::Format(const FormatRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("Format", request.path, request.fs_type));
  return With([&](FakeKernel& kernel) { return kernel.Format(request.path, request.fs_type); });
}

absl::Status FakeMounter::Check(const std::string& path, const std::string& fs_type) {
  MOORING_RETURN_IF_ERROR(Enter("Check", path, fs_type));
  return With([&](FakeKernel& kernel) { return kernel.Check(path, fs_type); });
}

absl::Status FakeMounter::Grow(const std::string& path, const std::string& fs_type) {
  MOORING_RETURN_IF_ERROR(Enter("Grow", path, fs_type));
  return With([&](FakeKernel& kernel) { return kernel.Grow(path, fs_type); });
}

absl::Status FakeMounter::Copy(const std::vector<ImageCopy>& copies) {
  for (const ImageCopy& copy : copies) MOORING_RETURN_IF_ERROR(Enter("Copy", copy.source, copy.destination));
  return With([&](FakeKernel& kernel) { return kernel.Copy(copies); });
}

absl::Status FakeMounter::Thaw(const std::string& image) { return Enter("Thaw", image); }

absl::Status FakeMounter::CopyTree(const std::string& source, const std::string& destination) {
  return Enter("CopyTree", source, destination);
}

absl::Status FakeMounter::RemoveTree(const std::string& directory) {
  MOORING_RETURN_IF_ERROR(Enter("RemoveTree", directory));
  return With([&](FakeKernel& kernel) { return kernel.RemoveTree(directory); });
}

absl::Status FakeMounter::LimitDirectory(const std::string& directory, std::uint64_t bytes) {
  return Enter("LimitDirectory", directory, fmt::format("{}", bytes));
}

absl::Status FakeMounter::PrepareSubvolumes(const std::string& pool) { return Enter("PrepareSubvolumes", pool); }

absl::Status FakeMounter::MakeSubvolumes(const std::vector<NewSubvolume>& subvolumes) {
  for (const NewSubvolume& each : subvolumes) {
    const std::string how = fmt::format("{} {}{}", each.source, each.bytes, each.read_only ? " ro" : "");
    MOORING_RETURN_IF_ERROR(Enter("MakeSubvolumes", each.path, how));
  }
  return absl::OkStatus();
}

absl::Status FakeMounter::LimitSubvolume(const std::string& path, std::uint64_t bytes) {
  return Enter("LimitSubvolume", path, fmt::format("{}", bytes));
}

absl::Status FakeMounter::RemoveSubvolume(const std::string& path) { return Enter("RemoveSubvolume", path); }

absl::StatusOr<LvmReport> FakeMounter::ReportLvm(const std::string& pool) {
  MOORING_RETURN_IF_ERROR(Enter("ReportLvm", pool));
  return With([&](FakeKernel& kernel) { return kernel.ReportLvm(pool); });
}

absl::Status FakeMounter::MakeLogicalVolume(const NewLogicalVolume& volume) {
  const std::string how = fmt::format("{} {}{}{}", volume.source, volume.bytes, volume.clear ? " clear" : "",
                                      volume.is_snapshot ? " snapshot" : "");
  MOORING_RETURN_IF_ERROR(Enter("MakeLogicalVolume", volume.name, how));
  return With([&](FakeKernel& kernel) { return kernel.MakeLogicalVolume(volume); });
}

absl::Status FakeMounter::GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) {
  MOORING_RETURN_IF_ERROR(Enter("GrowLogicalVolume", volume.name, fmt::format("{}", bytes)));
  return With([&](FakeKernel& kernel) { return kernel.GrowLogicalVolume(volume, bytes); });
}

absl::Status FakeMounter::ActivateLogicalVolume(const LogicalVolumeName& volume) {
  return Enter("ActivateLogicalVolume", volume.name);
}

absl::Status FakeMounter::RemoveLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_RETURN_IF_ERROR(Enter("RemoveLogicalVolume", volume.name));
  return With([&](FakeKernel& kernel) { return kernel.RemoveLogicalVolume(volume); });
}

absl::Status FakeMounter::NoteRawLogicalVolume(const LogicalVolumeName& volume) {
  MOORING_RETURN_IF_ERROR(Enter("NoteRawLogicalVolume", volume.name));
  return With([&](FakeKernel& kernel) { return kernel.NoteRawLogicalVolume(volume); });
}

// The log has no passphrase.
absl::Status FakeMounter::MakeEncrypted(const NewEncryptedVolume& volume) {
  const std::string how = fmt::format("{} {} {}", volume.volume.id, volume.source, volume.renew_fs_type);
  MOORING_RETURN_IF_ERROR(Enter("MakeEncrypted", volume.volume.carrier, how));
  return With([&](FakeKernel& kernel) { return kernel.MakeEncrypted(volume); });
}

absl::StatusOr<EncryptedState> FakeMounter::ReportEncrypted(const EncryptedVolume& volume) {
  MOORING_RETURN_IF_ERROR(Enter("ReportEncrypted", volume.carrier));
  return With([&](FakeKernel& kernel) { return kernel.ReportEncrypted(volume); });
}

absl::StatusOr<EncryptedState> FakeMounter::OpenEncrypted(const OpenRequest& request) {
  MOORING_RETURN_IF_ERROR(Enter("OpenEncrypted", request.volume.carrier, request.volume.id));
  return With([&](FakeKernel& kernel) { return kernel.OpenEncrypted(request); });
}

absl::Status FakeMounter::CloseEncrypted(const std::string& id) {
  MOORING_RETURN_IF_ERROR(Enter("CloseEncrypted", id));
  return With([&](FakeKernel& kernel) { return kernel.CloseEncrypted(id); });
}

absl::Status FakeMounter::ResizeEncrypted(const std::string& id) { return Enter("ResizeEncrypted", id); }

absl::Status FakeMounter::NoteRawEncrypted(const EncryptedVolume& volume) {
  MOORING_RETURN_IF_ERROR(Enter("NoteRawEncrypted", volume.carrier));
  return With([&](FakeKernel& kernel) { return kernel.NoteRawEncrypted(volume); });
}

absl::Status FakeMounter::CheckNeeds(const Needs& needs) {
  return Enter("CheckNeeds", needs.seen_outside.empty() ? "" : needs.seen_outside.front());
}

absl::StatusOr<bool> FakeMounter::IsInUse(const std::string& device) {
  MOORING_RETURN_IF_ERROR(Enter("IsInUse", device));
  return With([&](FakeKernel& kernel) { return kernel.Exists(device) && kernel.Node(device).in_use; });
}

absl::StatusOr<std::string> FakeMounter::HealthProblem(const std::string& mount_path) {
  MOORING_RETURN_IF_ERROR(Enter("HealthProblem", mount_path));
  return With([&](FakeKernel& kernel) { return kernel.HealthProblem(mount_path); });
}

absl::StatusOr<bool> FakeMounter::BindIf(const ConditionalBind& request) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, Find(request.bind.target));
  if (target.mount) return false;
  MOORING_ASSIGN_OR_RETURN(const PathInfo source, Find(request.bind.source));
  const std::optional<BindRequest> bind = BindOf(request, source);
  if (!bind) return false;
  MOORING_RETURN_IF_ERROR(CheckInTime(request.bind.target));
  MOORING_RETURN_IF_ERROR(Bind(*bind));
  return true;
}

absl::StatusOr<bool> FakeMounter::UnmountIf(const ConditionalUnmount& request) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo target, Find(request.unmount.target));
  if (!MayUnmount(target, request.target)) return false;
  MOORING_RETURN_IF_ERROR(CheckInTime(request.unmount.target));
  MOORING_RETURN_IF_ERROR(Unmount(request.unmount));
  return true;
}

absl::StatusOr<Examination> FakeMounter::Examine(const ExamineRequest& request) {
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

}  // namespace mooring::testing
