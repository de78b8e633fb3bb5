// A VolumeSource that a test fills.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plugin/model/volume_source.h"

namespace mooring::testing {

class FakeVolumeSource final : public VolumeSource {
 public:
  void Put(NodeVolume volume) {
    const std::lock_guard<std::mutex> lock(mutex_);
    volumes_[volume.id] = std::move(volume);
  }
  void Forget(const std::string& id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    volumes_.erase(id);
  }
  void FailFromNow(absl::Status status) {  // OK: answers again
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::move(status);
  }

  // The uses of volumes, by id.
  void FailUses(absl::Status begin, absl::Status end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    begin_ = std::move(begin);
    end_ = std::move(end);
  }
  std::vector<std::string> ended() const { return ended_; }
  std::vector<std::string> left() const { return left_; }

  absl::Status BeginUse(const std::string& /*id*/, const Capability& /*capability*/, bool /*read_only*/) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return begin_;
  }
  absl::Status EndUse(const std::string& id) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (end_.ok()) ended_.push_back(id);
    return end_;
  }
  void EndUseLater(const std::string& id) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_.push_back(id);
  }

  // The content of the pools' key file. Empty: there is none.
  void SetKey(std::string key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    key_ = std::move(key);
  }
  absl::StatusOr<std::string> PassphraseOf(const std::string& id, const std::string& given) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = volumes_.find(id);
    if (!given.empty() || found == volumes_.end() || found->second.carrier.empty()) return given;
    if (key_.empty()) return absl::UnauthenticatedError("no passphrase for " + id);
    return key_;
  }

  // While the next use is noted, its device moves.
  void MoveWithNote(NodeVolume moved) {
    const std::lock_guard<std::mutex> lock(mutex_);
    moved_ = std::move(moved);
  }
  void FailNotesFromNow(absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    notes_failure_ = std::move(status);
  }

  absl::StatusOr<NodeVolume> Find(const std::string& id) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    const auto found = volumes_.find(id);
    if (found == volumes_.end()) return NotFound("volume " + id + " does not exist");
    return found->second;
  }
  std::vector<KnownDevice> KnownDevices() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<KnownDevice> devices;
    for (const auto& [id, volume] : volumes_) {
      if (volume.device != 0) devices.push_back({.volume_id = id, .number = volume.device, .node = volume.path});
    }
    return devices;
  }
  absl::Status NoteRawUse(const std::string& id, bool read_only) override {
    if (read_only) return absl::OkStatus();
    const std::lock_guard<std::mutex> lock(mutex_);
    MOORING_RETURN_IF_ERROR(notes_failure_);
    if (moved_.id == id) volumes_.at(id) = moved_;
    volumes_.at(id).raw = true;
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, NodeVolume> volumes_;
  absl::Status failure_, begin_, end_, notes_failure_;
  std::vector<std::string> ended_, left_;
  std::string key_;
  NodeVolume moved_;
};

}  // namespace mooring::testing
