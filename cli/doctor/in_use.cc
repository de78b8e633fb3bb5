#include "cli/doctor/in_use.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/describe.h"

namespace mooring::cli::doctor_area {
namespace {

enum class Role { kTarget, kStaging, kUnknown };

struct Shape {
  const char* end;  // pattern for the end of a path, fnmatch(3)
  Role role;
};

constexpr std::array<Shape, 6> kShapes = {{
    {"per-alloc/*/*/r[ow]-*", Role::kTarget},
    {"staging/*/*/r[ow]-*", Role::kStaging},
    {"pods/*/volumes/kubernetes.io~csi/*/mount", Role::kTarget},
    {"plugins/kubernetes.io/csi/*/*/globalmount", Role::kStaging},
    {"plugins/kubernetes.io/csi/volumeDevices/publish/*/*", Role::kTarget},
    {"plugins/kubernetes.io/csi/volumeDevices/staging/*", Role::kStaging},
}};

bool EndsLike(const std::string& path, const char* end) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    if (::fnmatch(end, path.c_str() + at + 1, FNM_PATHNAME) == 0) return true;
  }
  return false;
}

Role RoleOf(const std::string& path) {
  const auto* const shape =
      std::find_if(kShapes.begin(), kShapes.end(), [&path](const Shape& known) { return EndsLike(path, known.end); });
  return shape == kShapes.end() ? Role::kUnknown : shape->role;
}

std::vector<std::string> WithRole(const std::vector<std::string>& paths, Role role) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (RoleOf(path) == role) found.push_back(path);
  }
  return found;
}

std::string Described(const std::string& id, const std::vector<std::string>& unknown) {
  std::string text = fmt::format(
      "volume {} is mounted here. If its tasks are gone and the orchestrator has forgotten it, free it with these "
      "commands, one by one, in the namespace of the plugin (nomad alloc exec ALLOC …). They fail while a process uses "
      "it",
      Quote(id));
  if (unknown.empty()) return text;
  text += ". A path that follows neither the names of kubelet nor those of Nomad has no command here:";
  for (const std::string& path : unknown) text += " " + Quote(path);
  return text + ". Run `mooring csi unpublish` for each target first, then `mooring csi unstage` for the staging path";
}

}  // namespace

Finding InUse(const std::string& volume_id, const std::vector<std::string>& paths) {
  const std::vector<std::string> unknown = WithRole(paths, Role::kUnknown);
  Finding finding = {"in-use", Severity::kNote, Described(volume_id, unknown), {}};
  for (const std::string& path : WithRole(paths, Role::kTarget)) {
    finding.commands.push_back(
        fmt::format("mooring csi unpublish {} --target-path {}", ShellQuote(volume_id), ShellQuote(path)));
  }
  if (!unknown.empty()) return finding;  // an unknown path may be a target
  for (const std::string& path : WithRole(paths, Role::kStaging)) {
    finding.commands.push_back(
        fmt::format("mooring csi unstage {} --staging-path {}", ShellQuote(volume_id), ShellQuote(path)));
  }
  return finding;
}

Finding HeldElsewhere(const std::string& volume_id, const NamespaceView& view, const std::string& path) {
  return {"held-elsewhere",
          Severity::kNote,
          fmt::format("volume {} is mounted nowhere here, and in the mount namespace of {} at {}: while it is, the "
                      "volume is in use, and cannot be deleted. If its tasks are gone, end that process, or unmount "
                      "it there: mooring umount {} --pid {}",
                      Quote(volume_id), ProcessText(view), Quote(path), ShellQuote(path), view.pid),
          {}};
}

}  // namespace mooring::cli::doctor_area
