// Fake claims and mounts for Attachments, with a log of their calls and the errors that a test injects. Safe
// from several threads.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "manager/claims/claim_broker.h"
#include "manager/volumes/volume_mounter.h"

namespace mooring::testing {

// The calls in order, such as "claim db web-1", and the injected errors.
class CallLog {
 public:
  // The next `times` calls of `what` fail.
  void Fail(const std::string& what, const absl::Status& status, int times = 1) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int i = 0; i < times; ++i) faults_[what].push_back(status);
  }

  absl::Status Enter(const std::string& what, const manager::VolumeKey& volume, const std::string& allocation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(what + " " + volume.id + " " + allocation);
    changed_.notify_all();
    auto& faults = faults_[what];
    if (faults.empty()) return absl::OkStatus();
    const absl::Status status = faults.front();
    faults.erase(faults.begin());
    return status;
  }

  std::vector<std::string> calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  int Count(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return CountLocked(what);
  }
  bool WaitFor(const std::string& what, int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return CountLocked(what) >= count; });
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.clear();
  }

 private:
  int CountLocked(const std::string& what) const {
    return static_cast<int>(std::count_if(calls_.begin(), calls_.end(),
                                          [&](const std::string& call) { return call.starts_with(what + " "); }));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> calls_;
  std::map<std::string, std::vector<absl::Status>> faults_;
};

class CountingClaims final : public manager::ClaimBroker {
 public:
  CountingClaims(CallLog& log, std::string plugin) : log_(log), plugin_(std::move(plugin)) {}

  // Volumes of this name have another plugin.
  void SetPlugin(const std::string& volume, const std::string& plugin) {
    const std::lock_guard<std::mutex> lock(mutex_);
    plugins_[volume] = plugin;
  }
  std::set<std::string> held() {  // "db web-1"
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }

  absl::StatusOr<manager::ClaimAnswer> Take(const manager::ClaimRequest& request, manager::Clock::time_point) override {
    MOORING_RETURN_IF_ERROR(log_.Enter("claim", request.volume, request.allocation));
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.insert(request.volume.id + " " + request.allocation);
    manager::ClaimAnswer answer;
    answer.volume.key = request.volume;
    answer.volume.external_id = "ext-" + request.volume.id;
    answer.volume.plugin = plugins_.contains(request.volume.id) ? plugins_.at(request.volume.id) : plugin_;
    answer.claim.volume = request.volume;
    answer.claim.allocation = request.allocation;
    answer.claim.mode = request.mode;
    answer.volume.node_expansion_owed = expansion_owed_;
    return answer;
  }

  bool IsRollbackOwed(const manager::VolumeKey&, manager::ClaimMode, const std::string&) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return taking_back_owed_;
  }
  void SetTakingBackOwed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    taking_back_owed_ = true;
  }

  absl::Status CheckHeld(const manager::ClaimAnswer& answer) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return given_up_.contains(answer.claim.allocation) ? FailedPrecondition("freed by another host") : absl::OkStatus();
  }
  absl::StatusOr<bool> IsHeld(const manager::VolumeKey& volume, manager::ClaimMode,
                              const std::string& allocation) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_.contains(volume.id + " " + allocation) && !given_up_.contains(allocation);
  }
  // From now on others have the claims of this allocation.
  void GiveUp(const std::string& allocation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    given_up_.insert(allocation);
  }

  absl::Status Release(const manager::VolumeKey& volume, manager::ClaimMode, const std::string& allocation,
                       const absl::Status& node_outcome, manager::Clock::time_point) override {
    MOORING_RETURN_IF_ERROR(log_.Enter("release", volume, allocation));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (node_outcome.ok()) held_.erase(volume.id + " " + allocation);
    return absl::OkStatus();
  }

  absl::Status ReleaseKept(const manager::VolumeKey& volume, manager::ClaimMode mode, const std::string& allocation,
                           manager::Clock::time_point until) override {
    return Release(volume, mode, allocation, absl::OkStatus(), until);
  }
  void MarkExhausted(const manager::VolumeKey& volume, const std::string& words) override {
    log_.Enter("exhausted", volume, words).IgnoreError();
  }
  void NodeExpanded(const manager::VolumeKey& volume, std::uint64_t) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.Enter("expanded", volume, "").IgnoreError();
    expansion_owed_ = false;
  }
  void SetExpansionOwed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    expansion_owed_ = true;
  }

 private:
  CallLog& log_;
  const std::string plugin_;
  std::mutex mutex_;
  std::map<std::string, std::string> plugins_;
  std::set<std::string> given_up_;
  std::set<std::string> held_;
  bool expansion_owed_ = false;
  bool taking_back_owed_ = false;
};

// A volume is mounted after Mount. HasMount of an absent plugin lasts until its deadline.
class CountingMounter final : public manager::VolumeMounter {
 public:
  explicit CountingMounter(CallLog& log) : log_(log) {}

  void SetAway(const std::string& plugin, bool away) {
    const std::lock_guard<std::mutex> lock(mutex_);
    away ? (void)away_.insert(plugin) : (void)away_.erase(plugin);
    changed_.notify_all();
  }
  void SetMounted(const std::string& allocation, const std::string& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    mounted_.insert({allocation, request});
  }
  // Called before each ExpandMounted, with the time that it has, and no lock held.
  void BeforeExpand(std::function<void(manager::Clock::time_point until)> hook) {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_expand_ = std::move(hook);
  }
  std::size_t mounted_count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return mounted_.size();
  }

  absl::Status CheckAttachPath(manager::AttachmentRecord&) override { return absl::OkStatus(); }
  absl::Status Prepare(manager::AttachmentRecord& record, manager::Clock::time_point) override {
    record.target_path = record.source = "/root/per-alloc/" + record.allocation + "/" + record.request;
    return absl::OkStatus();
  }
  absl::Status Mount(manager::AttachmentRecord& record, const manager::MountContext&,
                     manager::Clock::time_point) override {
    MOORING_RETURN_IF_ERROR(log_.Enter("mount", record.volume, record.allocation));
    SetMounted(record.allocation, record.request);
    return absl::OkStatus();
  }
  absl::Status Unmount(const manager::AttachmentRecord& record, manager::Clock::time_point) override {
    MOORING_RETURN_IF_ERROR(log_.Enter("unmount", record.volume, record.allocation));
    const std::lock_guard<std::mutex> lock(mutex_);
    mounted_.erase({record.allocation, record.request});
    return absl::OkStatus();
  }
  bool IsAttached(const manager::AttachmentRecord& record) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !unbound_ && mounted_.contains({record.allocation, record.request});
  }
  bool IsMountedAnywhere(const manager::AttachmentRecord& record) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return mounted_.contains({record.allocation, record.request});
  }
  // From now on a failed Unmount has at least taken the volume from its user.
  void SetUnbound() {
    const std::lock_guard<std::mutex> lock(mutex_);
    unbound_ = true;
  }
  absl::StatusOr<bool> HasMount(const manager::AttachmentRecord& record, manager::Clock::time_point until) override {
    MOORING_RETURN_IF_ERROR(log_.Enter("hasmount", record.volume, record.allocation));
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_until(lock, until, [&] { return !away_.contains(record.plugin); })) {
      return Unavailable("the plugin is away");
    }
    return mounted_.contains({record.allocation, record.request});
  }
  absl::StatusOr<std::vector<std::string>> FindUnknownMounts(const manager::Volume&) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return unknown_mounts_;
  }
  void SetUnknownMounts(std::vector<std::string> paths) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unknown_mounts_ = std::move(paths);
  }
  void RemoveDirectories(const manager::Volume&) override {}
  absl::StatusOr<bool> Expand(const manager::VolumeKey&, std::uint64_t, const manager::Secrets&,
                              manager::Clock::time_point) override {
    return true;
  }
  absl::StatusOr<bool> ExpandMounted(const manager::AttachmentRecord& record, std::uint64_t, const manager::Secrets&,
                                     manager::Clock::time_point until) override {
    if (const auto hook = BeforeExpand()) hook(until);
    MOORING_RETURN_IF_ERROR(log_.Enter("expand", record.volume, record.allocation));
    return true;
  }

 private:
  std::function<void(manager::Clock::time_point)> BeforeExpand() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return before_expand_;
  }

  CallLog& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<std::string, std::string>> mounted_;
  bool unbound_ = false;
  std::vector<std::string> unknown_mounts_;
  std::set<std::string> away_;
  std::function<void(manager::Clock::time_point)> before_expand_;
};

}  // namespace mooring::testing
