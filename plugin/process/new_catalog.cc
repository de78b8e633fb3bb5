#include "plugin/process/new_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/file/directory.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

bool IsVolume(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) && IsStoredId(name.substr(0, name.size() - suffix.size()));
}

}  // namespace

absl::Status CheckBeginsEmpty(const std::string& catalog, const std::vector<PoolConfig>& pools,
                              const std::string& state_dir) {
  std::ptrdiff_t count = 0;
  std::vector<std::string> directories;
  for (const PoolConfig& pool : pools) {
    const BackendType& type = TypeOf(pool.kind);
    const std::string directory = type.directory(pool, state_dir);
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(directory));
    const std::ptrdiff_t here = std::count_if(
        names.begin(), names.end(), [&](const std::string& name) { return IsVolume(name, type.entry_suffix); });
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
