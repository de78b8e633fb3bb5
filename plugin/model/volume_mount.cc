#include "plugin/model/volume_mount.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/file/path.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

constexpr std::string_view kLabel = "mooring:";
constexpr std::string_view kReadOnlyLabel = "mooring-ro:";
constexpr std::string_view kNodes = "devtmpfs", kDev = "/dev/";
constexpr std::string_view kDeleted = "//deleted";  // statmount(2), mountinfo: the directory was removed

std::string Behind(std::string_view prefix, std::string_view text) {
  return text.starts_with(prefix) ? std::string(text.substr(prefix.size())) : "";
}

std::string& NodeMark() {
  static std::string mark;
  return mark;
}

std::string WithNode(const std::string& volume_id) {
  return TagOfId(volume_id).empty() ? volume_id : volume_id + NodeMark();
}

// Without the mark of this node. Empty: the mark of another node.
std::string WithoutNode(const std::string& marked) {
  const std::string id = marked.substr(0, marked.find('@'));
  return id == marked || WithNode(id) == marked ? id : "";
}

}  // namespace

void SetNodeOfLabels(const std::string& node_id) {
  NodeMark() = fmt::format("@{:08x}", static_cast<std::uint32_t>(HashOf(node_id)));
}

std::string LabelFor(const std::string& volume_id) { return std::string(kLabel) + WithNode(volume_id); }
std::string ReadOnlyLabelFor(const std::string& volume_id) { return std::string(kReadOnlyLabel) + WithNode(volume_id); }

std::string OwnerOf(const LoopInfo& loop) {
  return WithoutNode(Behind(kLabel, loop.label) + Behind(kReadOnlyLabel, loop.label));
}

std::string OwnerOf(const MountInfo& mount) {
  if (mount.fs_type == "tmpfs") {
    if (std::string owner = Behind(kLabel, mount.source); !owner.empty()) return owner;
  }
  std::string_view root = mount.root;
  if (root.ends_with(kDeleted)) root.remove_suffix(kDeleted.size());
  const std::string_view name = NameOf(root);
  return IsVolumeId(name) ? std::string(name) : "";
}

std::string OwnerOf(const PathInfo& info) {
  if (info.loop) {
    if (std::string owner = OwnerOf(*info.loop); !owner.empty()) return owner;
  }
  return info.mount ? OwnerOf(*info.mount) : "";
}

absl::Status CheckNotMounted(Mounts& mounts, const std::string& volume_id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> all, mounts.List("/"));
  for (const MountInfo& mount : all) {
    if (OwnerOf(mount) != volume_id) continue;
    return FailedPrecondition("the volume is in use on this host, mounted at {}: unpublish and unstage it first",
                              Quote(mount.target));
  }
  return absl::OkStatus();
}

const KnownDevice* DeviceBehind(const MountInfo& mount, const std::vector<KnownDevice>& devices) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&mount](const KnownDevice& device) {
    return device.number == mount.device ||
           (mount.fs_type == kNodes && mount.root == "/" + device.node.substr(kDev.size()));
  });
  return found == devices.end() ? nullptr : &*found;
}

const KnownDevice* DeviceBehind(const PathInfo& info, const std::vector<KnownDevice>& devices) {
  if (!info.mount && info.kind != PathInfo::Kind::kBlockDevice)
    return nullptr;  // then info.device is that of the filesystem that contains it
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&info](const KnownDevice& device) { return device.number == info.device; });
  return found == devices.end() ? nullptr : &*found;
}

ExpectedMount ExpectedMountOf(const std::string& volume_id) {
  if (!IsVolumeId(volume_id)) return {};  // the caller's text: it may be anything
  return {.label = LabelFor(volume_id), .root_name = volume_id};
}

ExpectedMount ExpectedMountOf(const NodeVolume& volume) {
  return {.label = LabelFor(volume.id),
          .root_name = volume.id,
          .root_inode = volume.inode,
          .root_device = volume.inode_device,
          .device = volume.device};
}

bool IsMountOf(const NodeVolume& volume, const PathInfo& place) {
  if (volume.device != 0 && place.mount && place.device == volume.device) return true;
  if (!place.mount || OwnerOf(place) != volume.id) return false;
  // A filesystem that does not answer gives no inode, so only the name can be compared.
  if (volume.inode == 0 || !place.failure.empty()) return true;
  return place.inode == volume.inode && (volume.inode_device == 0 || place.inode_device == volume.inode_device);
}

}  // namespace mooring
