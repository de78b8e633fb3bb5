#include "plugin/api/export_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

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

// With the keys that Kubernetes' provisioner adds.
constexpr std::array kVariables = {std::pair("${pvc.metadata.name}", "csi.storage.k8s.io/pvc/name"),
                                   std::pair("${pvc.metadata.namespace}", "csi.storage.k8s.io/pvc/namespace"),
                                   std::pair("${pv.metadata.name}", "csi.storage.k8s.io/pv/name")};

}  // namespace

absl::StatusOr<std::string> SubDirOf(const ExportWords& words, const std::map<std::string, std::string>& parameters) {
  std::string name = words.sub_dir;
  for (const auto& [variable, key] : kVariables) {
    for (std::size_t at = name.find(variable); at != std::string::npos; at = name.find(variable)) {
      const auto given = parameters.find(key);
      if (given == parameters.end() || given->second.find('$') != std::string::npos) {
        return InvalidArgument(
            "parameter subDir: the request does not say what {} is: start Kubernetes' external-provisioner with "
            "--extra-create-metadata",
            variable);
      }
      name.replace(at, std::string_view(variable).size(), given->second);
    }
  }
  if (name.empty() || IsSubDir(name)) return name;
  return InvalidArgument(
      "parameter subDir {}: it is a directory in the export itself: at most 128 letters, digits, '-', '_' and '.', no "
      "id, and not retained-… or archived-…, which you can rename first",
      Quote(name));
}

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
    words.sub_dir = value;
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
