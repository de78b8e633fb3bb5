// Namespaces made of mountinfo texts.
#ifndef MOORING_TESTS_SUPPORT_MOUNT_GRAPH_H_
#define MOORING_TESTS_SUPPORT_MOUNT_GRAPH_H_

#include <string>
#include <utility>

#include "cli/mounts/mount_graph.h"

namespace mooring::testing {

inline NamespaceView View(std::uint64_t id, pid_t pid, std::string command, const std::string& mountinfo) {
  return {.id = id, .pid = pid, .command = std::move(command), .mounts = ParseMountInfo(mountinfo).value()};
}

}  // namespace mooring::testing

#endif  // MOORING_TESTS_SUPPORT_MOUNT_GRAPH_H_
