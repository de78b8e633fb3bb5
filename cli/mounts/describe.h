// A mount as text for people and as JSON for scripts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/mounts/mount_graph.h"
#include "cli/output/output.h"

namespace mooring::cli {

std::string SourceText(const TableMount& mount);  // "/dev/vda1[/volumes]", the form of findmnt(8)
std::string NumberText(dev_t device);             // "7:3"
JsonObject MountJson(const TableMount& mount);

// "pid 4711 (nginx)"
std::string ProcessText(const NamespaceView& view);

// The flags and the propagation of the mount: "ro,nosuid,relatime; slave of 3".
std::string StateText(const TableMount& mount);

std::optional<unsigned> LoopNumber(std::string_view name);  // 3 for "loop3"; absent for other names

struct LoopBehind {
  std::string device;  // "/dev/loop3"
  std::string backing_file;
};
// The loop device behind a filesystem or behind a bound device node. Reads sysfs only, and opens no device.
std::optional<LoopBehind> LoopBehindMount(const TableMount& mount);

}  // namespace mooring::cli
