// Loop devices that only exist. A test attaches them, and a query finds them.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "mounter/mounter.h"

namespace mooring::testing {

class FakeLoops final : public LoopDevices {
 public:
  // The device disappears after `queries` queries. -1: never.
  void Attach(const std::string& path, const std::string& device = "/dev/loop7", int queries = -1) {
    const std::lock_guard<std::mutex> lock(mutex_);
    loops_[path] = {device, queries};
  }
  void Detach(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    loops_.erase(path);
  }

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override {
    return Unimplemented("attach " + request.backing_file);
  }
  absl::Status HoldLoop(const LoopInfo& loop) override { return Unimplemented("hold " + loop.device); }
  absl::Status Flush(const std::string& device) override { return Unimplemented("flush " + device); }
  absl::Status HoldDevice(const std::string& device) override { return Unimplemented("hold " + device); }
  absl::Status ReleaseDevice(const std::string& device) override { return Unimplemented("release " + device); }
  absl::Status DetachLoop(const LoopInfo& loop) override { return Unimplemented("detach " + loop.device); }
  absl::Status ResizeLoop(const LoopInfo& loop) override { return Unimplemented("resize " + loop.device); }
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning&) override {
    return Unimplemented("tune " + loop.device);
  }
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure.ok()) return failure;
    const auto found = loops_.find(backing_file);
    if (found == loops_.end()) return std::vector<LoopInfo>();
    if (found->second.queries_left-- == 0) {
      loops_.erase(found);
      return std::vector<LoopInfo>();
    }
    LoopInfo info;
    info.device = found->second.device;
    return std::vector<LoopInfo>{info};
  }

  absl::Status failure;

 private:
  struct Loop {
    std::string device;
    int queries_left = -1;
  };
  std::mutex mutex_;
  std::map<std::string, Loop> loops_;
};

}  // namespace mooring::testing
