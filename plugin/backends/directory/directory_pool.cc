#include "plugin/backends/directory/directory_pool.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/quota/project_quota.h"
#include "plugin/backends/interface/quota_word.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The plugin makes the directory later, if it is missing.
absl::StatusOr<UniqueFd> OpenNearest(std::string path) {
  for (;;) {
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.ok()) return directory;
    if (errno != ENOENT || path == "/") return ErrnoStatus(errno, "open the directory", path);
    path = ParentOf(path);
  }
}

absl::Status CheckCanLimit(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, OpenNearest(path));
  MOORING_RETURN_IF_ERROR(CheckEnforcesProjects(directory, path));
  return CheckGivesNoProject(directory, path);
}

}  // namespace

absl::Status CompleteDirectoryPool(PoolConfig& pool) {
  if (pool.path.empty()) return InvalidArgument("path is missing");
  return pool.own_keys.contains(std::string(kQuotaKey)) ? CheckQuotaWord(QuotaWordOf(pool)) : absl::OkStatus();
}

void AddQuotaAbilities(const PoolConfig& pool, BackendTraits& traits) {
  traits.grows = !QuotaWordOf(pool).empty();
  traits.enforces_size = QuotaWordOf(pool) == kEnforced;
}

absl::Status CheckDirectoryPool(const PoolConfig& pool, bool is_first_start) {
  const log::Fields fields = {{"pool", pool.name}, {"directory", pool.path}};
  if (IsAdvisory(pool)) log::Warning("size not enforced: the pool has quota=advisory", fields);
  if (QuotaWordOf(pool) != kEnforced) return absl::OkStatus();
  const absl::Status limits = CheckCanLimit(pool.path);
  if (limits.ok()) return limits;
  const absl::Status checked = Annotate(limits, fmt::format("pool {}", pool.name));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(pool.path));
  if (names.empty() && !is_first_start && absl::IsFailedPrecondition(limits)) {
    return Unavailable(
        "pool {}: {} is missing or empty, and enforces no sizes: if its disk is not mounted, mount it there, and start "
        "the plugin again; else: {}",
        pool.name, Quote(pool.path), Message(limits));
  }
  if (std::none_of(names.begin(), names.end(), IsVolumeId)) return checked;
  log::WarningIfFailed(checked, "a pool does not enforce sizes", fields);
  return absl::OkStatus();
}

}  // namespace mooring
