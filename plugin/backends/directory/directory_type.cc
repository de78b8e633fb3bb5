#include "base/status.h"
#include "plugin/backends/directory/directory_backend.h"

namespace mooring {
namespace {

absl::Status CompleteDirectoryPool(PoolConfig& pool) {
  return pool.path.empty() ? InvalidArgument("path is missing") : absl::OkStatus();
}

std::unique_ptr<Backend> MakeDirectoryBackend(const PoolConfig&, const std::string& directory,
                                              const BackendParts& parts) {
  return std::make_unique<DirectoryBackend>(directory, parts.mounter, parts.mounter, parts.new_directory_mode);
}

}  // namespace

const BackendType& DirectoryBackendType() {
  static const BackendType kType = {
      .traits = {.name = "directory", .staging = Staging::kDirectory, .keeps_data = true},
      .pool_keys = {"path", "overcommit"},
      .complete = CompleteDirectoryPool,
      .owns_path = true,
      .tasks_files = true,
      .check_host = [](const PoolConfig&) { return absl::OkStatus(); },
      .directory = [](const PoolConfig& pool, const std::string&) { return pool.path; },
      .make = MakeDirectoryBackend,
      .allow = [](const PoolConfig& pool, PoolAccess& access) { access.volume_directories.push_back(pool.path); }};
  return kType;
}

}  // namespace mooring
