#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "plugin/backends/tmpfs/tmpfs_backend.h"

namespace mooring {
namespace {

std::uint64_t HalfOfMemory() {
  struct sysinfo info = {};
  if (::sysinfo(&info) != 0) return 0;
  return std::uint64_t{info.totalram} * info.mem_unit / 2;
}

absl::Status CompleteTmpfsPool(PoolConfig& pool) {
  if (pool.bytes == 0) pool.bytes = HalfOfMemory();
  pool.overcommit = 1;  // the pool's volumes never have more memory than this together
  return absl::OkStatus();
}

std::unique_ptr<Backend> MakeTmpfsBackend(const PoolConfig& pool, const std::string& directory,
                                          const BackendParts& parts) {
  return std::make_unique<TmpfsBackend>(directory, pool.bytes, parts.mounter);
}

}  // namespace

const BackendType& TmpfsBackendType() {
  static const BackendType kType = {
      .traits = {.name = "tmpfs",
                 .staging = Staging::kMemory,
                 .grows = true,
                 .enforces_size = true,
                 .takes_size_at_once = true},
      .pool_keys = {"size"},
      .complete = CompleteTmpfsPool,
      .check_host = [](const PoolConfig&) { return absl::OkStatus(); },
      .directory = [](const PoolConfig& pool,
                      const std::string& state_dir) { return fmt::format("{}/memory/{}", state_dir, pool.name); },
      .make = MakeTmpfsBackend,
      .allow = [](const PoolConfig& pool,
                  PoolAccess& access) { access.most_memory = std::max(access.most_memory, pool.bytes); }};
  return kType;
}

}  // namespace mooring
