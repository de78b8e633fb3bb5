// Contents for tests without root: real files, copied byte by byte, and no mounts. Keeps a log, and fails
// when it is told to.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "base/status.h"
#include "mounter/mounter.h"

namespace mooring::testing {

class FakeContents final : public Contents {
 public:
  absl::Status Copy(const std::vector<ImageCopy>& copies) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    copied_.push_back(copies);
    if (!failure.ok()) return failure;
    for (const ImageCopy& copy : copies) {
      if (std::filesystem::exists(copy.destination)) return AlreadyExists(copy.destination);
      if (!std::filesystem::exists(copy.source)) return NotFound(copy.source);
    }
    std::error_code error;
    for (const ImageCopy& copy : copies) {
      std::filesystem::copy_file(copy.source, copy.destination, error);
      if (!error) std::filesystem::resize_file(copy.destination, copy.bytes, error);
      if (error) return Internal(error.message());
    }
    return absl::OkStatus();
  }

  absl::Status Thaw(const std::string& image) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    thawed_.push_back(image);
    return absl::OkStatus();
  }

  absl::Status CopyTree(const std::string& source, const std::string& destination) override {
    std::error_code error;
    if (!failure.ok()) return failure;
    std::filesystem::copy(source, destination, std::filesystem::copy_options::recursive, error);
    return error ? Internal(error.message()) : absl::OkStatus();
  }

  absl::Status RemoveTree(const std::string& directory) override {
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    return error ? Internal(error.message()) : absl::OkStatus();
  }

  absl::Status LimitDirectory(const std::string& /*directory*/, std::uint64_t /*bytes*/) override {
    return absl::OkStatus();
  }

  std::vector<std::vector<ImageCopy>> copied() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return copied_;
  }
  std::vector<std::string> thawed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return thawed_;
  }

  absl::Status failure;  // of every Copy, which does nothing then

 private:
  std::mutex mutex_;
  std::vector<std::vector<ImageCopy>> copied_;
  std::vector<std::string> thawed_;
};

}  // namespace mooring::testing
