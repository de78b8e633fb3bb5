// A mount, for people and for scripts.
#ifndef MOORING_CLI_MOUNTS_DESCRIBE_H_
#define MOORING_CLI_MOUNTS_DESCRIBE_H_

#include <optional>
#include <string>

#include "cli/mounts/mount_graph.h"
#include "cli/output/json.h"

namespace mooring::cli {

std::string SourceText(const TableMount& mount);  // "/dev/vda1[/volumes]", as findmnt(8) has it
std::string NumberText(dev_t device);             // "7:3"
JsonObject MountJson(const TableMount& mount);

// "pid 4711 (nginx)"
std::string ProcessText(const NamespaceView& view);

// What of the mount's flags can be changed by nobody else: "ro,nosuid,relatime; slave of 3".
std::string StateText(const TableMount& mount);

struct LoopBehind {
  std::string device;  // "/dev/loop3"
  std::string backing_file;
};
// Behind a filesystem, or behind a device node that is bound; from sysfs, nothing is opened.
std::optional<LoopBehind> LoopBehindMount(const TableMount& mount);

}  // namespace mooring::cli

#endif  // MOORING_CLI_MOUNTS_DESCRIBE_H_
