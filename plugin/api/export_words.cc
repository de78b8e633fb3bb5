#include "plugin/api/export_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

// "server:/export". The letters of a server's name may be large or small.
bool SameExport(const std::string& a, const std::string& b) {
  const std::size_t server = a.find(":/");
  const auto same = [](unsigned char one, unsigned char other) { return std::tolower(one) == std::tolower(other); };
  return server != std::string::npos && a.size() == b.size() && a.substr(server) == b.substr(server) &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(server), b.begin(), same);
}

}  // namespace

absl::StatusOr<bool> SetExportWord(const std::string& key, const std::string& value, ExportWords& words,
                                   VolumeMaking& making) {
  if (key == "server") {
    words.server = value;
  } else if (key == "share") {
    words.share = value.size() > 1 && value.ends_with('/') ? value.substr(0, value.size() - 1) : value;
  } else if (key == "mountPermissions") {
    if (value.find_first_not_of('0') == std::string::npos) return true;  // as in csi-driver-nfs: the mode stays
    const std::optional<mode_t> before = making.root.mode;  // of the parameter mode, which comes first in the alphabet
    MOORING_ASSIGN_OR_RETURN(const bool set, SetMaking("mode", value, making));
    if (!before || before == making.root.mode) return set;
    return InvalidArgument("parameters mode and {} contradict each other: give one of them", key);
  } else if (key == "subDir") {
    return InvalidArgument(
        "parameter {}: each volume has a directory of its own, named by its id: leave the parameter out", Quote(key));
  } else if (key == "onDelete") {
    if (value == "delete") return true;
    return InvalidArgument(
        "parameter {} {}: a deleted volume is deleted. Leave the parameter out, and keep the volume instead "
        "(Kubernetes: reclaimPolicy: Retain)",
        Quote(key), Quote(value));
  } else {
    return false;
  }
  return true;
}

absl::Status CheckOptionsOfPool(const MountOptions& asked, const Pool& pool) {
  for (const FilesystemOption& option : asked.of_pool) {
    if (std::find(pool.options.begin(), pool.options.end(), option) != pool.options.end()) continue;
    return InvalidArgument(
        "mount flag {} is one of the whole pool {}, which is mounted with {}: write it behind "
        "options= of --pool, or leave it out",
        Quote(ToString({option})), pool.name, ToString(pool.options));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PoolOfExport(const ExportWords& words, const std::string& pool, const Pools& pools) {
  if (words.server.empty() && words.share.empty()) return pool;
  const bool is_ipv6 = words.server.find(':') != std::string::npos && !words.server.starts_with('[');
  const std::string source = (is_ipv6 ? "[" + words.server + "]" : words.server) + ":" + words.share;
  const auto found = std::find_if(pools.all().begin(), pools.all().end(), [&](const Pool& other) {
    return SameExport(other.source, source) && (pool.empty() || other.name == pool);
  });
  if (found != pools.all().end()) return found->name;
  return InvalidArgument(
      "no pool of this plugin{} is on the export {}: start the plugin with --pool "
      "name=NAME,backend=nfs,server={},export={}, and ask for pool=NAME",
      pool.empty() ? "" : fmt::format(" with the name {}", Quote(pool)), Quote(source), words.server, words.share);
}

}  // namespace mooring
