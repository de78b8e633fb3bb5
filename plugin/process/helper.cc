#include "plugin/process/helper.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "mounter/helper/spawner.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_mount.h"
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
  return FailedPrecondition("{} is neither beside {} nor in {}: install it there, or use --mounter=in-process",
                            kProgram, self.string(), kInstalled);
}

PoolAccess AccessOf(const std::vector<PoolConfig>& pools) {
  PoolAccess access;
  for (const PoolConfig& pool : pools) TypeOf(pool.kind).allow(pool, access);
  return access;
}

HelperPolicy PolicyFor(const Config& config, const PoolAccess& access, const std::string& socket_directory) {
  HelperPolicy policy = {.roots = config.mount_roots,
                         .sources = access.image_directories,
                         .label_prefix = std::string(kLabelPrefix),
                         .forbidden_trees = {config.state_dir},
                         .forbidden_places = {socket_directory},
                         .volume_directories = access.volume_directories};
  if (!config.kubelet_registration_dir.empty()) policy.forbidden_places.push_back(config.kubelet_registration_dir);
  policy.most_memory = access.most_memory;
  policy.device_links = access.device_links;
  return policy;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HelperMounter>> StartHelperAndConfine(const Config& config, std::function<void()> lost) {
  MOORING_ASSIGN_OR_RETURN(const std::string program, FindProgram());
  const std::string socket_directory(ParentOf(config.socket_path));
  const PoolAccess access = AccessOf(config.pools);
  const HelperPolicy policy = PolicyFor(config, access, socket_directory);
  MOORING_ASSIGN_OR_RETURN(HelperSpawner spawner,
                           HelperSpawner::Start(program, {policy, config.log_level, config.log_format}));
  std::vector<std::string> directories = access.image_directories;
  directories.insert(directories.end(), access.volume_directories.begin(), access.volume_directories.end());
  MOORING_RETURN_IF_ERROR(Confine({.state_dir = config.state_dir,
                                   .socket_directory = socket_directory,
                                   .registration_directory = config.kubelet_registration_dir,
                                   .pools = directories,
                                   .device_links = access.link_directories},
                                  config.user));
  return HelperMounter::Start(std::move(spawner), std::move(lost));
}

}  // namespace mooring
