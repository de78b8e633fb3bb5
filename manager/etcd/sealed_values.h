// Encrypts values with AES-256-GCM before they leave the host. The name of the key is authenticated too, so that a
// value cannot be moved to another key.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring::manager {

class SealedValues {
 public:
  // The file has 32 bytes in base64 or hex, and no access for group and others. FAILED_PRECONDITION otherwise.
  static absl::StatusOr<SealedValues> Open(const std::string& key_file);

  absl::StatusOr<std::string> Seal(std::string_view name, std::string_view value) const;

  // FAILED_PRECONDITION: it was encrypted with another key, or changed.
  absl::StatusOr<std::string> Unseal(std::string_view name, std::string_view sealed) const;

 private:
  SealedValues(std::string key, std::string file) : key_(std::move(key)), file_(std::move(file)) {}

  std::string key_;
  std::string file_;
};

}  // namespace mooring::manager
