#include "plugin/helper.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/path.h"
#include "base/status.h"
#include "mounter/keeper.h"
#include "plugin/confinement.h"
#include "plugin/node_volumes.h"
#include "plugin/state_dir.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<HelperMounter>> StartHelperAndConfine(const Config& config, std::function<void()> lost) {
  MOORING_ASSIGN_OR_RETURN(const std::string program, FindProgram());
  const std::string socket_directory(ParentOf(config.socket_path));
  const Allowance allowance = {.roots = config.mount_roots,
                               .sources = {VolumesDirectory(config.state_dir)},
                               .label_prefix = std::string(kLabelPrefix),
                               .forbidden = {config.state_dir},
                               .kept_free = {socket_directory}};
  MOORING_ASSIGN_OR_RETURN(Keeper keeper, Keeper::Start(program, allowance, config.log_level, config.log_format));
  MOORING_RETURN_IF_ERROR(Confine({.state_dir = config.state_dir, .socket_directory = socket_directory}));
  return HelperMounter::Start(std::move(keeper), std::move(lost));
}

}  // namespace mooring
