#include "mounter/guard/guarded_mounter.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/file/path.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/guard/refusal.h"
#include "mounter/id_mappings.h"
#include "mounter/mount/memory_mount.h"
#include "mounter/mount/nfs_mount.h"
#include "mounter/other_filesystems.h"
#include "mounter/path/device_links.h"
#include "mounter/path/mapping_names.h"

namespace mooring {
namespace {

// No target lies in these, whatever the mount roots are, because programs that run as root read code, configuration or
// orders there. The list cannot be complete: with the mount root "/" the plugin is as powerful as root.
constexpr std::string_view kSystem[] = {
    // the root directory
    "/bin", "/boot", "/dev", "/efi", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/ostree", "/proc",
    "/root", "/sbin", "/snap", "/sys", "/sysroot", "/usr", "/opt/cni", "/opt/containerd",
    // /run
    "/run/NetworkManager", "/run/binfmt.d", "/run/containerd", "/run/containers", "/run/credentials", "/run/crio",
    "/run/cryptsetup", "/run/dbus", "/run/docker", "/run/initramfs", "/run/lock", "/run/log", "/run/lvm",
    "/run/modprobe.d", "/run/modules-load.d", "/run/mooring", "/run/mooring-manager", "/run/mooring-nfs",
    "/run/mooring-scratch", "/run/mount", "/run/podman", "/run/polkit-1", "/run/sudo", "/run/sysctl.d", "/run/systemd",
    "/run/sysusers.d", "/run/tmpfiles.d", "/run/udev", "/run/user", "/run/xtables.lock",
    // /var
    "/var/cache", "/var/log", "/var/mail", "/var/spool", "/var/lib/AccountsService", "/var/lib/NetworkManager",
    "/var/lib/apt", "/var/lib/bluetooth", "/var/lib/cloud", "/var/lib/cni", "/var/lib/containerd",
    "/var/lib/containers", "/var/lib/dbus", "/var/lib/dhcp", "/var/lib/dkms", "/var/lib/dnf", "/var/lib/docker",
    "/var/lib/dpkg", "/var/lib/extensions", "/var/lib/confexts", "/var/lib/initramfs-tools", "/var/lib/k0s/bin",
    "/var/lib/k0s/manifests", "/var/lib/k0s/pki", "/var/lib/kubelet/checkpoints", "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/pki", "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/pod-resources",
    "/var/lib/kubelet/seccomp", "/var/lib/kubelet/volumeplugins", "/var/lib/machines", "/var/lib/pam",
    "/var/lib/polkit-1", "/var/lib/portables", "/var/lib/private", "/var/lib/rancher/k3s/agent/etc",
    "/var/lib/rancher/k3s/agent/pod-manifests", "/var/lib/rancher/k3s/data", "/var/lib/rancher/k3s/server",
    "/var/lib/rancher/rke2/agent/pod-manifests", "/var/lib/rancher/rke2/bin", "/var/lib/rancher/rke2/data",
    "/var/lib/rancher/rke2/server", "/var/lib/rpm", "/var/lib/snapd", "/var/lib/sss", "/var/lib/sudo",
    "/var/lib/systemd", "/var/lib/ucf"};
// No target is one of these. It may lie below.
constexpr std::string_view kParents[] = {
    "/home",
    "/local",
    "/media",
    "/mnt",
    "/opt",
    "/run",
    "/srv",
    "/tmp",
    "/var",
    "/var/lib",
    "/var/lib/k0s",
    "/var/lib/kubelet",
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/pods",
    "/var/lib/rancher",
};

bool IsSystem(const std::string& path) {
  const auto in = [&](std::string_view directory) { return IsBelow(path, directory); };
  const auto is = [&](std::string_view directory) { return path == directory; };
  return std::any_of(std::begin(kSystem), std::end(kSystem), in) ||
         std::any_of(std::begin(kParents), std::end(kParents), is);
}

// Else a hostile plugin could let a user of the host make files that are root's on a disk.
absl::Status CheckIds(const std::string& idmap) {
  const absl::Status status = idmap.empty() ? absl::OkStatus() : CheckIdMapOfTasks(idmap);
  return status.ok() ? status : Refuse("refused ids of the host", Message(status));
}

// Only loop devices may be opened. Opening other devices can have effects: a watchdog, a tape.
bool IsLoopNode(std::string_view path) {
  constexpr std::string_view kLoop = "/dev/loop";
  if (!path.starts_with(kLoop) || path.size() == kLoop.size()) return false;
  return path.find_first_not_of("0123456789", kLoop.size()) == std::string_view::npos;
}

// An encrypted volume that is open: the plugin writes its image, and may know its passphrase.
bool IsEncryptedVolume(dev_t device) {
  return FirstLine(fmt::format("/sys/dev/block/{}:{}/dm/name", major(device), minor(device)))
      .starts_with(kMappingPrefix);
}

}  // namespace

std::string ExportText(const MountRequest& request) {
  std::vector<FilesystemOption> options = request.options;
  std::erase_if(options, [](const FilesystemOption& option) { return option.key == "addr"; });
  return fmt::format("{} {} {}", request.target, request.source, ToString(options));
}

std::vector<std::string> ForbiddenTrees(const HelperPolicy& policy) {
  std::vector<std::string> trees(std::begin(kSystem), std::end(kSystem));
  trees.insert(trees.end(), policy.sources.begin(), policy.sources.end());
  trees.insert(trees.end(), policy.volume_directories.begin(), policy.volume_directories.end());
  trees.insert(trees.end(), policy.forbidden_trees.begin(), policy.forbidden_trees.end());
  return trees;
}

absl::Status GuardedMounter::CheckTarget(const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::string normal, NormalisePath("path", path));
  if (!IsBelowAny(normal, policy_.roots)) {
    return Refuse("refused a target outside the mount roots",
                  fmt::format("{} lies below none of the directories that the mount helper was started for "
                              "(--mount-root {}): start the plugin with a --mount-root above it",
                              Quote(normal), fmt::join(policy_.roots, ", ")));
  }
  if (IsSystem(normal)) {
    return Refuse("refused a target in a system directory",
                  fmt::format("{} is, or lies in, a directory of the system: the mount helper does not mount there",
                              Quote(normal)));
  }
  if (IsBelowAny(normal, policy_.sources) || IsBelowAny(normal, policy_.volume_directories)) {
    return Refuse(
        "refused a target among the backing files",
        fmt::format("{} lies in a directory of volumes: the mount helper does not mount there", Quote(normal)));
  }
  const auto& kept = policy_.forbidden_places;
  if (IsBelowAny(normal, policy_.forbidden_trees) || std::find(kept.begin(), kept.end(), normal) != kept.end()) {
    return Refuse("refused a target in a directory of the plugin's own",
                  fmt::format("{} is, or lies in, a directory of the plugin's own (its state, its socket): the mount "
                              "helper does not mount there",
                              Quote(normal)));
  }
  return absl::OkStatus();
}

absl::Status GuardedMounter::CheckBackingFile(const std::string& path) const {
  MOORING_ASSIGN_OR_RETURN(const std::string normal, NormalisePath("path", path));
  if (!policy_.device_links.empty() && IsBelow(normal, "/dev")) {
    MOORING_ASSIGN_OR_RETURN(const PathInfo node, mounter_.Find(normal));
    MOORING_ASSIGN_OR_RETURN(const bool ours, IsVolumeDevice(node));
    if (ours) return absl::OkStatus();
  }
  if (!IsBelowAny(normal, policy_.sources)) {
    return Refuse("refused a source that is no volume",
                  fmt::format("{} lies in none of the directories of volumes that the mount helper was started with",
                              Quote(normal)));
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, mounter_.Find(normal));
  if (info.kind != PathInfo::Kind::kBlockDevice) return absl::OkStatus();
  return Refuse("refused a device among the volumes", fmt::format("{} is a device node, not a volume", Quote(normal)));
}

absl::Status GuardedMounter::CheckLabel(const std::string& label) const {
  if (label.starts_with(policy_.label_prefix)) return absl::OkStatus();
  return Refuse(
      "refused a loop device with a foreign label",
      fmt::format("the label {} does not begin with the prefix that the mount helper was started with", Quote(label)));
}

absl::StatusOr<bool> GuardedMounter::IsVolumeDevice(const PathInfo& info) const {
  const bool is_device = info.mount.has_value() || info.kind == PathInfo::Kind::kBlockDevice;
  if (!is_device) return false;
  return IsBehindLinks(policy_.device_links, info.device);
}

bool GuardedMounter::IsVolumeDirectory(const std::string& path) const {
  const auto& directories = policy_.volume_directories;
  return std::find(directories.begin(), directories.end(), ParentOf(path)) != directories.end();
}

absl::Status GuardedMounter::CheckMemory(const MountRequest& request) const {
  MOORING_RETURN_IF_ERROR(CheckLabel(request.source));
  return CheckMemorySize(request.options);
}

absl::Status GuardedMounter::CheckMemorySize(const std::vector<FilesystemOption>& options) const {
  MOORING_RETURN_IF_ERROR(CheckMemoryOptions(options));
  const std::optional<std::uint64_t> bytes = MemorySizeIn(options);
  if (bytes && *bytes <= policy_.most_memory) return absl::OkStatus();
  return Refuse("refused a tmpfs that is too large",
                fmt::format("a tmpfs of {} bytes: the mount helper was started with a limit of {}",
                            bytes ? fmt::format("{}", *bytes) : "unlimited", policy_.most_memory));
}

absl::Status GuardedMounter::CheckExport(const MountRequest& request) const {
  const std::string asked = ExportText(request);
  if (std::find(policy_.exports.begin(), policy_.exports.end(), asked) != policy_.exports.end()) {
    return CheckHasAddress(request);
  }
  return Refuse("refused an export that is no pool",
                fmt::format("{} is none of the exports that the mount helper was started with", Quote(asked)));
}

// The plugin writes its images and their loop devices, but no device of the host.
absl::Status GuardedMounter::CheckMountType(const MountRequest& request) const {
  std::vector<std::string> others = policy_.fs_types;
  std::erase_if(others, [](const std::string& type) { return !IsOnOneDevice(type); });
  if (std::find(others.begin(), others.end(), request.fs_type) == others.end()) {
    return CheckFsType(request.fs_type, others);
  }
  MOORING_ASSIGN_OR_RETURN(const PathInfo source, mounter_.Find(request.source));
  const bool is_ours = source.loop ? source.loop->raw || source.loop->label.starts_with(policy_.label_prefix)
                                   : IsEncryptedVolume(source.device);
  if (source.kind == PathInfo::Kind::kBlockDevice && !is_ours && request.options.empty()) return absl::OkStatus();
  return Refuse("refused a filesystem on something else than a device",
                fmt::format("a filesystem {} is mounted from a device of the host alone, and without options: not from "
                            "{}",
                            Quote(request.fs_type), Quote(request.source)));
}

absl::Status GuardedMounter::Mount(const MountRequest& request) {
  if (request.fs_type == kNfsFsType) {
    MOORING_RETURN_IF_ERROR(CheckExport(request));
    return mounter_.Mount(request);
  }
  MOORING_RETURN_IF_ERROR(CheckTarget(request.target));
  MOORING_RETURN_IF_ERROR(CheckIds(request.idmap));
  if (request.fs_type == kMemoryFsType && policy_.most_memory != 0) {
    MOORING_RETURN_IF_ERROR(CheckMemory(request));
    return mounter_.Mount(request);
  }
  MOORING_RETURN_IF_ERROR(CheckBackingFile(request.source));
  MOORING_RETURN_IF_ERROR(CheckMountType(request));
  MOORING_RETURN_IF_ERROR(CheckLabel(request.label));
  return mounter_.Mount(request);
}

absl::Status GuardedMounter::Bind(const BindRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckTarget(request.target));
  MOORING_RETURN_IF_ERROR(CheckIds(request.idmap));
  return mounter_.Bind(request);
}

absl::Status GuardedMounter::Change(const ChangeRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckTarget(request.target));
  // Only tmpfs has these options.
  const auto is_limit = [](const FilesystemOption& option) {
    return option.key == "size" || option.key == "nr_inodes";
  };
  if (std::any_of(request.options.begin(), request.options.end(), is_limit)) {
    MOORING_RETURN_IF_ERROR(CheckMemorySize(request.options));
  }
  return mounter_.Change(request);
}

absl::Status GuardedMounter::Unmount(const UnmountRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckTarget(request.target));
  return mounter_.Unmount(request);
}

absl::StatusOr<LoopInfo> GuardedMounter::AttachLoop(const AttachLoopRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckLabel(request.label));
  // A read-only view of a block volume is a loop device over another loop device.
  MOORING_ASSIGN_OR_RETURN(const std::string file, NormalisePath("path", request.backing_file));
  MOORING_RETURN_IF_ERROR(IsBelow(file, "/dev") ? CheckDevice(file) : CheckBackingFile(file));
  return mounter_.AttachLoop(request);
}

absl::Status GuardedMounter::Flush(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const std::string node, CheckedDevice(device));
  return mounter_.Flush(node);
}

absl::Status GuardedMounter::HoldDevice(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const std::string node, CheckedDevice(device));
  return mounter_.HoldDevice(node);
}

absl::Status GuardedMounter::ReleaseDevice(const std::string& device) {
  MOORING_ASSIGN_OR_RETURN(const std::string node, CheckedDevice(device));
  return mounter_.ReleaseDevice(node);
}

absl::StatusOr<std::string> GuardedMounter::CheckedDevice(const std::string& device) const {
  MOORING_ASSIGN_OR_RETURN(std::string node, NormalisePath("path", device));
  MOORING_RETURN_IF_ERROR(CheckDevice(node));
  return node;
}

absl::Status GuardedMounter::CheckDevice(const std::string& node) const {
  if (IsLoopNode(node) || (IsBelow(node, "/dev") && CheckBackingFile(node).ok())) return absl::OkStatus();
  return Refuse("refused a device that is no loop device",
                fmt::format("{} is neither a volume nor the loop device of one", Quote(node)));
}

// The mounter trusts the device number and the file in the request, which a hostile plugin may invent. So both have to
// match the device as it is now, and the device needs our label. If the device passes to another file afterwards, the
// mounter sees that the file differs and leaves it alone.
absl::StatusOr<bool> GuardedMounter::IsAsFound(const LoopInfo& loop) const {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, mounter_.Find(loop.device));
  if (!info.loop || !info.loop->IsSameDevice(loop)) return false;
  // A raw device that is not held has no label. Only Mooring has such numbers.
  if (!info.loop->raw || !info.loop->label.empty()) MOORING_RETURN_IF_ERROR(CheckLabel(info.loop->label));
  return true;
}

absl::Status GuardedMounter::HoldLoop(const LoopInfo& loop) {
  MOORING_RETURN_IF_ERROR(CheckLabel(loop.label));
  MOORING_ASSIGN_OR_RETURN(const bool as_found, IsAsFound(loop));
  if (as_found) return mounter_.HoldLoop(loop);
  return Aborted("{} is no longer the device of its file: call again", Quote(loop.device));
}

absl::Status GuardedMounter::DetachLoop(const LoopInfo& loop) {
  MOORING_ASSIGN_OR_RETURN(const bool as_found, IsAsFound(loop));
  return as_found ? mounter_.DetachLoop(loop) : absl::OkStatus();
}

absl::Status GuardedMounter::ResizeLoop(const LoopInfo& loop) {
  MOORING_ASSIGN_OR_RETURN(const bool as_found, IsAsFound(loop));
  if (as_found) return mounter_.ResizeLoop(loop);
  return FailedPrecondition("{} is no longer the device of its file", Quote(loop.device));
}

absl::Status GuardedMounter::TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  MOORING_ASSIGN_OR_RETURN(const bool as_found, IsAsFound(loop));
  if (as_found) return mounter_.TuneLoop(loop, tuning);
  return NotFound("{} is no longer the device of its file", Quote(loop.device));
}

absl::StatusOr<FilesystemInfo> GuardedMounter::Probe(const std::string& path) {
  MOORING_RETURN_IF_ERROR(CheckBackingFile(path));
  return mounter_.Probe(path);
}

absl::Status GuardedMounter::Format(const FormatRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckBackingFile(request.path));
  MOORING_RETURN_IF_ERROR(CheckFsType(request.fs_type));
  return mounter_.Format(request);
}

absl::Status GuardedMounter::Check(const std::string& path, const std::string& fs_type) {
  MOORING_RETURN_IF_ERROR(CheckBackingFile(path));
  MOORING_RETURN_IF_ERROR(CheckFsType(fs_type));
  return mounter_.Check(path, fs_type);
}

absl::Status GuardedMounter::Grow(const std::string& path, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, mounter_.Find(path));
  const bool is_filesystem = info.mount.has_value() && info.kind == PathInfo::Kind::kDirectory;
  if (!is_filesystem) MOORING_RETURN_IF_ERROR(CheckBackingFile(path));
  MOORING_RETURN_IF_ERROR(CheckFsType(fs_type));
  return mounter_.Grow(path, fs_type);
}

absl::StatusOr<bool> GuardedMounter::IsInUse(const std::string& device) {
  MOORING_RETURN_IF_ERROR(CheckBackingFile(device));
  return mounter_.IsInUse(device);
}

absl::Status GuardedMounter::Copy(const std::vector<ImageCopy>& copies) {
  for (const ImageCopy& copy : copies) {
    MOORING_RETURN_IF_ERROR(CheckBackingFile(copy.source));
    MOORING_RETURN_IF_ERROR(CheckBackingFile(copy.destination));
    if (!copy.renew_fs_type.empty()) MOORING_RETURN_IF_ERROR(CheckFsType(copy.renew_fs_type));
  }
  return mounter_.Copy(copies);
}

absl::Status GuardedMounter::Thaw(const std::string& image) {
  MOORING_RETURN_IF_ERROR(CheckBackingFile(image));
  return mounter_.Thaw(image);
}

// The same checks as for Bind and Unmount.
absl::StatusOr<bool> GuardedMounter::BindIf(const ConditionalBind& request) {
  MOORING_RETURN_IF_ERROR(CheckTarget(request.bind.target));
  MOORING_RETURN_IF_ERROR(CheckIds(request.bind.idmap));
  return mounter_.BindIf(request);
}

absl::StatusOr<bool> GuardedMounter::UnmountIf(const ConditionalUnmount& request) {
  MOORING_RETURN_IF_ERROR(CheckTarget(request.unmount.target));
  return mounter_.UnmountIf(request);
}

}  // namespace mooring
