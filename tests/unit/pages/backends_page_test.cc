// The table of abilities in docs/backends.md is that of the source.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "plugin/backends/registry.h"

namespace mooring {
namespace {

std::vector<std::string> RowsOfThePage() {
  std::ifstream file(MOORING_SOURCE_DIR "/docs/backends.md");
  std::vector<std::string> rows;
  bool in_section = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) in_section = line == "## What a backend can";
    if (in_section && line.starts_with("|")) rows.push_back(line);
  }
  return rows;
}

std::string Row(const std::string& name, bool BackendTraits::*ability) {
  std::string row = fmt::format("| {} |", name);
  for (const BackendKind kind : kBackendKinds) row += TraitsOf(kind).*ability ? " yes |" : " no |";
  return row;
}

TEST(BackendsPageTest, HasTheAbilitiesOfEachBackend) {
  std::string kinds = "| |", fs_types = "| `fsType` |";
  for (const BackendKind kind : kBackendKinds) {
    const std::vector<std::string>& choices = TraitsOf(kind).fs_types;
    kinds += fmt::format(" {} |", ToString(kind));
    fs_types += choices.empty() ? " none |" : fmt::format(" {} |", fmt::join(choices, ", "));
  }
  const std::vector<std::string> wanted = {
      kinds,
      "|---|---|---|---|---|",
      Row("raw block volumes", &BackendTraits::block),
      Row("snapshots, alone and in groups", &BackendTraits::snapshots),
      Row("volumes from snapshots and from volumes", &BackendTraits::clones),
      Row("volumes grow", &BackendTraits::grows),
      Row("the size is enforced", &BackendTraits::enforces_size),
      Row("data survives unstage and reboot", &BackendTraits::keeps_data),
      Row("mutable parameters of the device", &BackendTraits::tunes),
      fs_types,
  };
  EXPECT_EQ(RowsOfThePage(), wanted);
}

}  // namespace
}  // namespace mooring
