#include "plugin/process/helper.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "mounter/helper/spawner.h"
#include "mounter/path/device_links.h"
#include "plugin/node/node_volumes.h"
#include "plugin/process/confinement.h"

namespace mooring {
namespace {

constexpr char kProgram[] = "mooring-mounter";
constexpr char kInstalled[] = "/usr/libexec/mooring";

absl::StatusOr<std::string> FindProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& directory : {self.parent_path(), std::filesystem::path(kInstalled)}) {
    std::string program = directory / kProgram;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return FailedPrecondition(
      fmt::format("{} is neither beside {} nor in {}: install it there, or use --mounter=in-process", kProgram,
                  self.string(), kInstalled));
}

std::vector<std::string> DirectoriesOf(const std::vector<PoolConfig>& pools, const std::set<BackendKind>& kinds) {
  std::vector<std::string> paths;
  for (const PoolConfig& pool : pools) {
    if (kinds.contains(pool.kind)) paths.push_back(pool.path);
  }
  return paths;
}

HelperPolicy PolicyFor(const Config& config, const std::string& socket_directory) {
  HelperPolicy policy = {.roots = config.mount_roots,
                         .sources = DirectoriesOf(config.pools, {BackendKind::kImage}),
                         .label_prefix = std::string(kLabelPrefix),
                         .forbidden_trees = {config.state_dir},
                         .forbidden_places = {socket_directory},
                         .volume_directories = DirectoriesOf(config.pools, {BackendKind::kDirectory})};
  if (!config.kubelet_registration_dir.empty()) policy.forbidden_places.push_back(config.kubelet_registration_dir);
  for (const PoolConfig& pool : config.pools) {
    policy.most_memory = std::max(policy.most_memory, pool.bytes);
    if (pool.kind == BackendKind::kDevice) policy.device_links.push_back(LinksText(pool.path, pool.match));
  }
  return policy;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HelperMounter>> StartHelperAndConfine(const Config& config, std::function<void()> lost) {
  MOORING_ASSIGN_OR_RETURN(const std::string program, FindProgram());
  const std::string socket_directory(ParentOf(config.socket_path));
  const HelperPolicy policy = PolicyFor(config, socket_directory);
  MOORING_ASSIGN_OR_RETURN(HelperSpawner spawner,
                           HelperSpawner::Start(program, {policy, config.log_level, config.log_format}));
  MOORING_RETURN_IF_ERROR(Confine({.state_dir = config.state_dir,
                                   .socket_directory = socket_directory,
                                   .registration_directory = config.kubelet_registration_dir,
                                   .pools = DirectoriesOf(config.pools, {BackendKind::kImage, BackendKind::kDirectory}),
                                   .device_links = DirectoriesOf(config.pools, {BackendKind::kDevice})},
                                  config.user));
  return HelperMounter::Start(std::move(spawner), std::move(lost));
}

}  // namespace mooring
