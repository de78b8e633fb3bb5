#include "plugin/process/new_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/file/directory.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

// The name of an image, a directory volume or the record of a device.
bool IsVolume(std::string_view name) {
  constexpr std::string_view kImageSuffix = ".img";
  if (name.ends_with(kImageSuffix)) name.remove_suffix(kImageSuffix.size());
  return IsStoredId(name);
}

}  // namespace

std::string DirectoryOf(const PoolConfig& pool, const std::string& state_dir) {
  switch (pool.kind) {
    case BackendKind::kImage:
    case BackendKind::kDirectory:
      return pool.path;
    case BackendKind::kTmpfs:
      return fmt::format("{}/memory/{}", state_dir, pool.name);
    case BackendKind::kDevice:
      return fmt::format("{}/devices/{}", state_dir, pool.name);
  }
  return pool.path;
}

absl::Status CheckBeginsEmpty(const std::string& catalog, const std::vector<PoolConfig>& pools,
                              const std::string& state_dir) {
  std::ptrdiff_t count = 0;
  std::vector<std::string> directories;
  for (const PoolConfig& pool : pools) {
    const std::string directory = DirectoryOf(pool, state_dir);
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(directory));
    const std::ptrdiff_t here = std::count_if(names.begin(), names.end(), IsVolume);
    if (here != 0) directories.push_back(Quote(directory));
    count += here;
  }
  if (count == 0) return absl::OkStatus();
  return FailedPrecondition(fmt::format(
      "the volume catalog {} is missing or empty, and {} volume(s) or snapshot(s) lie in {}: put a copy of the catalog "
      "back (docs/backup.md); or, to begin anew without them, move them away and start the plugin again",
      Quote(catalog), count, fmt::join(directories, ", ")));
}

}  // namespace mooring
