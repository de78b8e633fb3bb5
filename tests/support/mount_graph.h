// Namespaces made of mountinfo texts.
#pragma once

#include <string>
#include <utility>

#include "cli/mounts/mount_graph.h"

namespace mooring::testing {

inline NamespaceView View(std::uint64_t id, pid_t pid, std::string command, const std::string& mountinfo) {
  return {.id = id, .pid = pid, .command = std::move(command), .mounts = ParseMountInfo(mountinfo).value()};
}

}  // namespace mooring::testing
