#include "tests/rpc/support/helper_processes.h"

#include <filesystem>
#include <sstream>

#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

pid_t ChildNamed(pid_t parent, const std::string& name) {
  for (const pid_t pid : ChildrenOf(parent)) {
    if (Runs(pid) && NameOfProcess(pid) == name) return pid;
  }
  return -1;
}

}  // namespace

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::istringstream listed(ReadFile(thread.path() / "children"));
    for (pid_t child = 0; listed >> child;) children.push_back(child);
  }
  return children;
}

std::string NameOfProcess(pid_t pid) { return StatusField(pid, "Name"); }

pid_t SpawnerOf(pid_t plugin) { return ChildNamed(plugin, "mooring-spawner"); }

pid_t HelperOf(pid_t plugin) {
  const pid_t spawner = SpawnerOf(plugin);
  return spawner < 0 ? -1 : ChildNamed(spawner, "mooring-mounter");
}

std::vector<std::string> ThreadStatuses(pid_t pid) {
  std::vector<std::string> statuses;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const std::string status = ReadFile(entry.path() / "status");
    if (!status.empty()) statuses.push_back(status);
  }
  return statuses;
}

}  // namespace mooring::testing
