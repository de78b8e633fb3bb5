#include "cli/mounts/describe.h"

#include <fmt/format.h>
#include <linux/major.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <system_error>

#include "base/file/path.h"
#include "base/text/whole_number.h"

namespace mooring::cli {
namespace {

std::string PropagationWord(const TableMount& mount) {
  if (mount.shared()) return mount.master != 0 ? "slave-and-shared" : "shared";
  if (mount.master != 0) return "slave";
  return mount.unbindable ? "unbindable" : "private";
}

// "loop3" if the mount shows the filesystem on a loop device, or its device node.
std::string LoopName(const TableMount& mount) {
  if (major(mount.device) == LOOP_MAJOR) return fmt::format("loop{}", minor(mount.device));
  const bool is_btrfs = mount.fs_type == "btrfs";  // its mounts have numbers of no device
  if (!is_btrfs && mount.fs_type != "devtmpfs" && mount.fs_type != "tmpfs") return "";
  const std::string name(NameOf(is_btrfs ? mount.source : mount.root));
  return LoopNumber(name) ? name : "";
}

}  // namespace

std::string SourceText(const TableMount& mount) {
  return mount.root == "/" ? mount.source : fmt::format("{}[{}]", mount.source, mount.root);
}

std::string NumberText(dev_t device) { return fmt::format("{}:{}", major(device), minor(device)); }

JsonObject MountJson(const TableMount& mount) {
  JsonObject json;
  json.Add("target", mount.target).Add("source", mount.source).Add("root", mount.root).Add("fs_type", mount.fs_type);
  json.Add("device", NumberText(mount.device)).Add("flags", ToString(mount.flags));
  json.AddBool("read_only", mount.flags.read_only).AddBool("superblock_read_only", mount.superblock_read_only);
  json.Add("propagation", PropagationWord(mount)).AddNumber("peer_group", mount.peer_group);
  return json.AddNumber("master", mount.master);
}

std::string ProcessText(const NamespaceView& view) { return fmt::format("pid {} ({})", view.pid, view.command); }

std::string StateText(const TableMount& mount) {
  return fmt::format("{}; {}", ToString(mount.flags), PropagationText(mount));
}

std::optional<unsigned> LoopNumber(std::string_view name) {
  constexpr std::string_view kLoop = "loop";
  if (!name.starts_with(kLoop)) return std::nullopt;
  name.remove_prefix(kLoop.size());
  return ParseWhole<unsigned>(name);
}

std::optional<LoopBehind> LoopBehindMount(const TableMount& mount) {
  const std::string name = LoopName(mount);
  if (name.empty()) return std::nullopt;
  LoopBehind loop{.device = "/dev/" + name, .backing_file = {}};
  std::ifstream file(fmt::format("/sys/block/{}/loop/backing_file", name));
  if (!std::getline(file, loop.backing_file)) return std::nullopt;
  return loop;
}

}  // namespace mooring::cli
