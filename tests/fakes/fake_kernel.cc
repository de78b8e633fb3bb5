#include "tests/fakes/fake_kernel.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::testing {
namespace {

constexpr unsigned kLoopMajor = 7;
const dev_t kRootDevice = makedev(8, 1);
const dev_t kDevtmpfs = makedev(0, 5);

// The number of "/dev/loop3"; empty: another path.
std::optional<unsigned> LoopNumber(const std::string& path) {
  constexpr std::string_view kPrefix = "/dev/loop";
  unsigned number = 0;
  if (!path.starts_with(kPrefix)) return std::nullopt;
  const auto [end, error] = std::from_chars(path.data() + kPrefix.size(), path.data() + path.size(), number);
  return error == std::errc() && end == path.data() + path.size() ? std::optional<unsigned>(number) : std::nullopt;
}

}  // namespace

FakeKernel::FakeKernel() { AddDirectory("/dev"); }

void FakeKernel::AddDirectory(const std::string& path) {
  if (path == "/") return;
  AddDirectory(std::string(ParentOf(path)));
  nodes_.try_emplace(path, FakeNode{PathInfo::Kind::kDirectory, 0, next_inode_++, {}});
}

void FakeKernel::AddFile(const std::string& path, std::uint64_t bytes) {
  AddDirectory(std::string(ParentOf(path)));
  nodes_[path] = {PathInfo::Kind::kRegular, bytes, next_inode_++, {}};
}

void FakeKernel::AddBlockDevice(const std::string& path) {
  AddDirectory(std::string(ParentOf(path)));
  nodes_[path] = {PathInfo::Kind::kBlockDevice, 0, next_inode_++, {}};
}

void FakeKernel::RemovePath(const std::string& path) {
  std::erase_if(nodes_, [&path](const auto& node) { return IsBelow(node.first, path); });
}

void FakeKernel::AddMount(ListedMount info) {
  info.id = next_mount_++;
  mounts_.push_back({std::move(info), false, false, ""});
}

void FakeKernel::AddForeignMount(const std::string& target, const std::string& fs_type, std::uint64_t peer_group,
                                 std::uint64_t master) {
  ListedMount info;
  info.target = target;
  info.root = "/";
  info.fs_type = fs_type;
  info.device = makedev(0, static_cast<unsigned>(1000 + next_mount_));
  info.peer_group = peer_group;
  info.master = master;
  AddMount(std::move(info));
}

void FakeKernel::AddForeignLoop(const std::string& backing_file, const std::string& label, bool auto_clear) {
  NewLoop(backing_file, label, auto_clear);
}

void FakeKernel::DropMounts(const std::string& path) {
  std::erase_if(mounts_, [&path](const FakeMount& mount) { return mount.info.target == path; });
  DropUnusedLoops();
}

void FakeKernel::SetBusy(const std::string& path, bool busy) {
  for (FakeMount& mount : mounts_) {
    if (mount.info.target == path) mount.busy = busy;
  }
}

void FakeKernel::SetFailure(const std::string& path, const std::string& failure) {
  for (FakeMount& mount : mounts_) {
    if (mount.info.target == path) mount.failure = failure;
  }
}

void FakeKernel::Reboot() {
  mounts_.clear();
  loops_.clear();
}

std::vector<FakeMount> FakeKernel::MountsAt(const std::string& path) const {
  std::vector<FakeMount> found;
  std::copy_if(mounts_.begin(), mounts_.end(), std::back_inserter(found),
               [&path](const FakeMount& mount) { return mount.info.target == path; });
  return found;
}

std::vector<LoopInfo> FakeKernel::Loops() const {
  std::vector<LoopInfo> infos;
  for (const auto& [number, loop] : loops_) infos.push_back(InfoOf(loop));
  return infos;
}

std::string FakeKernel::Describe() const {
  std::string text;
  for (const auto& [path, node] : nodes_) text += fmt::format("path {} {}\n", path, static_cast<int>(node.kind));
  for (const FakeMount& mount : mounts_) {
    const ListedMount& info = mount.info;
    text += fmt::format("mount {} {} {} {}:{} {}\n", info.target, info.fs_type, info.root, major(info.device),
                        minor(info.device), ToString(info.flags));
  }
  for (const auto& [number, loop] : loops_) {
    text +=
        fmt::format("loop {} {} inode {} rdev {}{}{}\n", loop.info.device, loop.info.label, loop.info.backing_inode,
                    loop.info.backing_rdev, loop.info.read_only ? " ro" : "", loop.info.auto_clear ? " autoclear" : "");
  }
  return text;
}

const FakeMount* FakeKernel::TopMount(const std::string& path) const {
  const auto found = std::find_if(mounts_.rbegin(), mounts_.rend(),
                                  [&path](const FakeMount& mount) { return mount.info.target == path; });
  return found == mounts_.rend() ? nullptr : &*found;
}

const FakeMount* FakeKernel::MountAround(const std::string& path) const {
  const FakeMount* innermost = nullptr;
  for (const FakeMount& mount : mounts_) {
    if (!IsBelow(path, mount.info.target)) continue;
    if (innermost == nullptr || mount.info.target.size() >= innermost->info.target.size()) innermost = &mount;
  }
  return innermost;
}

absl::Status FakeKernel::CheckParents(const std::string& path) const {
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string above = path.substr(0, end);
    const auto node = nodes_.find(above);
    if (TopMount(above) != nullptr) continue;
    if (node == nodes_.end()) return ErrnoStatus(ENOENT, "open", above);
    if (node->second.kind != PathInfo::Kind::kDirectory) return ErrnoStatus(ENOTDIR, "open", above);
  }
  return absl::OkStatus();
}

absl::Status FakeKernel::CheckParentsForMount(const std::string& path) const {
  const absl::Status parents = CheckParents(path);
  return absl::IsNotFound(parents) ? FailedPrecondition(Message(parents)) : parents;
}

bool FakeKernel::IsEmpty(const std::string& path) const {
  const FakeNode& node = nodes_.at(path);
  if (node.kind != PathInfo::Kind::kDirectory) return node.bytes == 0;
  const auto next = nodes_.upper_bound(path + "/");
  return next == nodes_.end() || !IsBelow(next->first, path);
}

absl::StatusOr<PathInfo> FakeKernel::Find(const std::string& path) const {
  const absl::Status parents = CheckParents(path);
  if (absl::IsNotFound(parents)) return PathInfo();
  if (!parents.ok()) return parents;
  PathInfo info;
  if (const FakeMount* mount = TopMount(path); mount != nullptr) {
    info.kind = mount->is_device ? PathInfo::Kind::kBlockDevice : PathInfo::Kind::kDirectory;
    info.empty = false;
    info.mount = mount->info;
    const unsigned number = mount->is_device ? LoopNumber("/dev" + mount->info.root).value() : 0;
    info.device = mount->is_device ? makedev(kLoopMajor, number) : mount->info.device;
    info.failure = mount->failure;
    info.inode = mount->inode;
  } else if (const std::optional<unsigned> loop = LoopNumber(path)) {
    info.kind = PathInfo::Kind::kBlockDevice;
    info.device = makedev(kLoopMajor, *loop);
  } else if (const auto node = nodes_.find(path); node != nodes_.end()) {
    info.kind = node->second.kind;
    info.inode = node->second.inode;
    info.empty = IsEmpty(path);
    const FakeMount* around = MountAround(path);
    info.device = around == nullptr ? kRootDevice : around->info.device;
  }
  info.loop = LoopInfoOf(info.device);
  return info;
}

std::vector<ListedMount> FakeKernel::List(const std::string& path) const {
  std::vector<ListedMount> found;
  for (const FakeMount& mount : mounts_) {
    if (IsBelow(mount.info.target, path)) found.push_back(mount.info);
  }
  return found;
}

absl::Status FakeKernel::CheckAttachPath(const std::string& path, TargetKind kind) const {
  if (TopMount(path) != nullptr) return FailedPrecondition("{} is a mount already", Quote(path));
  const auto node = nodes_.find(path);
  if (node == nodes_.end()) return absl::OkStatus();  // it can be made
  const PathInfo::Kind wanted = kind == TargetKind::kFile ? PathInfo::Kind::kRegular : PathInfo::Kind::kDirectory;
  if (node->second.kind != wanted) {
    return FailedPrecondition("{} is not {}", Quote(path), kind == TargetKind::kFile ? "an empty file" : "a directory");
  }
  if (!IsEmpty(path)) return FailedPrecondition("{} is not empty", Quote(path));
  return absl::OkStatus();
}

void FakeKernel::Make(const std::string& path, TargetKind kind) {
  const auto made = kind == TargetKind::kFile ? PathInfo::Kind::kRegular : PathInfo::Kind::kDirectory;
  nodes_.try_emplace(path, FakeNode{made, 0, next_inode_++, {}});
}

// rmdir(2) and unlink(2), and no more than KernelMounter allows.
absl::Status FakeKernel::Remove(const std::string& path) {
  if (TopMount(path) != nullptr) return ErrnoStatus(EBUSY, "remove", path);
  const auto node = nodes_.find(path);
  if (node == nodes_.end()) return absl::OkStatus();
  const bool removable =
      node->second.kind == PathInfo::Kind::kDirectory || node->second.kind == PathInfo::Kind::kRegular;
  if (!removable || !IsEmpty(path)) return ErrnoStatus(ENOTEMPTY, "remove (only if it is empty)", path);
  nodes_.erase(node);
  return absl::OkStatus();
}

// A mount below a shared mount has copies in other namespaces, in a peer group of their own. A slave receives from it.
void FakeKernel::SetPropagation(ListedMount& info, Propagation propagation) {
  const FakeMount* around = MountAround(info.target);
  const bool below_shared = around != nullptr && around->info.shared();
  if (propagation == Propagation::kShared || (propagation == Propagation::kInherit && below_shared)) {
    info.peer_group = next_peer_group_++;
  } else if (propagation == Propagation::kSlave && below_shared) {
    info.master = next_peer_group_++;
  }
}

absl::Status FakeKernel::Mount(const MountRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckParentsForMount(request.target));
  MOORING_RETURN_IF_ERROR(CheckAttachPath(request.target, TargetKind::kDirectory));
  if (request.fs_type == "tmpfs") return MountMemory(request);
  for (const FilesystemOption& option : request.options) {
    if (!IsAllowed(request.fs_type, option)) return InvalidArgument("option " + option.key);
  }
  MOORING_ASSIGN_OR_RETURN(FakeNode * image, ImageAt(request.source));
  if (image->filesystem.type != request.fs_type || image->filesystem.size_bytes > image->bytes) {
    return FailedPrecondition("mount the {} filesystem of {}", request.fs_type, Quote(request.source));
  }
  FakeLoop* loop = LoopOver(request.source);
  if (loop != nullptr && loop->info.raw) {
    return FailedPrecondition("{} is in use as a block device through {}", Quote(request.source), loop->info.device);
  }
  if (loop == nullptr) loop = &NewLoop(request.source, request.label, true);
  loop->info.auto_clear = true;
  loop->bytes = image->bytes;
  FakeMount mount;
  mount.info.id = next_mount_++;
  mount.info.target = request.target;
  mount.info.root = "/";
  mount.info.fs_type = request.fs_type;
  mount.info.device = loop->info.device_number;
  mount.info.flags = request.flags;
  mount.idmap = request.idmap;
  mount.info.ids_mapped = !mount.idmap.empty();
  SetPropagation(mount.info, request.propagation);
  Make(request.target, TargetKind::kDirectory);
  mounts_.push_back(mount);
  return absl::OkStatus();
}

absl::Status FakeKernel::MountMemory(const MountRequest& request) {
  FakeMount mount;
  mount.info.id = next_mount_++;
  mount.info.target = request.target;
  mount.info.root = "/";
  mount.info.fs_type = request.fs_type;
  mount.info.source = request.source;
  mount.info.device = makedev(0, static_cast<unsigned>(1000 + next_mount_));
  mount.info.flags = request.flags;
  mount.idmap = request.idmap;
  mount.info.ids_mapped = !mount.idmap.empty();
  mount.options = request.options;
  SetPropagation(mount.info, request.propagation);
  Make(request.target, TargetKind::kDirectory);
  mounts_.push_back(mount);
  return absl::OkStatus();
}

absl::Status FakeKernel::Bind(const BindRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckParentsForMount(request.target));
  MOORING_ASSIGN_OR_RETURN(const PathInfo source, Find(request.source));
  if (source.kind == PathInfo::Kind::kMissing) return ErrnoStatus(ENOENT, "open", request.source);
  const bool onto_itself = request.source == request.target && TopMount(request.target) == nullptr;
  if (!onto_itself) MOORING_RETURN_IF_ERROR(CheckAttachPath(request.target, request.target_kind));
  FakeMount mount;
  mount.is_device = source.kind == PathInfo::Kind::kBlockDevice;
  mount.info.id = next_mount_++;
  mount.info.target = request.target;
  mount.info.root = mount.is_device ? "/" + std::string(NameOf(request.source))
                    : source.mount  ? source.mount->root
                                    : request.source;
  mount.info.source = source.mount ? source.mount->source : "";
  mount.inode = source.inode;
  mount.info.fs_type = mount.is_device ? "devtmpfs" : source.mount ? source.mount->fs_type : "ext4";
  mount.info.device = mount.is_device ? kDevtmpfs : source.device;
  mount.info.flags = request.flags;
  // As the kernel does: a copy keeps the map, and no mount gets two.
  const FakeMount* const origin = TopMount(request.source);
  const std::string kept = origin == nullptr ? "" : origin->idmap;
  if (!kept.empty() && !request.idmap.empty()) return FailedPrecondition("its ids are mapped already");
  mount.idmap = kept + request.idmap;
  mount.info.ids_mapped = !mount.idmap.empty();
  SetPropagation(mount.info, request.propagation);
  Make(request.target, request.target_kind);
  mounts_.push_back(mount);
  return absl::OkStatus();
}

// Options are of the filesystem, which the fake does not model.
absl::Status FakeKernel::Change(const ChangeRequest& request) {
  const FakeMount* const top = TopMount(request.target);
  if (top == nullptr) return FailedPrecondition("nothing is mounted at " + request.target);
  ListedMount& changed = mounts_[static_cast<std::size_t>(top - mounts_.data())].info;
  if (request.flags) changed.flags = *request.flags;
  if (request.propagation == Propagation::kShared && !changed.shared()) changed.peer_group = next_peer_group_++;
  if (request.propagation == Propagation::kSlave && changed.shared()) changed.master = changed.peer_group;
  if (request.propagation == Propagation::kPrivate) changed.master = 0;
  if (request.propagation == Propagation::kPrivate || request.propagation == Propagation::kSlave)
    changed.peer_group = 0;
  for (FakeMount& mount : mounts_) {
    if (mount.info.device == top->info.device && !request.options.empty()) mount.options = request.options;
  }
  return absl::OkStatus();
}

// Removes the tree. If something is mounted below it, nothing is removed.
absl::Status FakeKernel::RemoveTree(const std::string& directory) {
  for (const FakeMount& mount : mounts_) {
    if (IsBelow(mount.info.target, directory)) return FailedPrecondition("a mount is at " + mount.info.target);
  }
  std::erase_if(nodes_, [&directory](const auto& node) { return IsBelow(node.first, directory); });
  return absl::OkStatus();
}

absl::Status FakeKernel::Unmount(const UnmountRequest& request) {
  const absl::Status parents = CheckParents(request.target);
  if (absl::IsNotFound(parents)) return absl::OkStatus();
  if (!parents.ok()) return parents;
  if (const FakeMount* top = TopMount(request.target); top != nullptr) {
    const bool parent_of_others = std::any_of(mounts_.begin(), mounts_.end(), [&request](const FakeMount& mount) {
      return mount.info.target != request.target && IsBelow(mount.info.target, request.target);
    });
    if (top->busy || parent_of_others) return ErrnoStatus(EBUSY, "unmount", request.target);
    mounts_.erase(mounts_.begin() + (top - mounts_.data()));
    DropUnusedLoops();
  }
  return request.remove_target ? Remove(request.target) : absl::OkStatus();
}

// ---- logical volumes

absl::StatusOr<LvmReport> FakeKernel::ReportLvm(const std::string& pool) const {
  const auto found = lvm_pools.find(pool);
  if (found == lvm_pools.end()) return Unavailable("volume group '{}' is not there", pool);
  return found->second;
}

LogicalVolume* FakeKernel::FindLogicalVolume(const LogicalVolumeName& volume) {
  for (LogicalVolume& there : lvm_pools[volume.pool].volumes) {
    if (there.name == volume.name) return &there;
  }
  return nullptr;
}

absl::Status FakeKernel::MakeLogicalVolume(const NewLogicalVolume& volume) {
  LvmReport& pool = lvm_pools[volume.pool];
  if (FindLogicalVolume({volume.pool, volume.name}) == nullptr) {
    pool.volumes.push_back({.name = volume.name,
                            .bytes = volume.bytes,
                            .is_cleared = volume.clear || pool.zeroes,
                            .is_active = !volume.is_snapshot});
  }
  return absl::OkStatus();
}

absl::Status FakeKernel::GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) {
  LogicalVolume* const found = FindLogicalVolume(volume);
  if (found == nullptr) return NotFound("no " + volume.name);
  found->bytes = std::max(found->bytes, bytes);
  found->is_cleared = found->is_cleared || found->is_growing;
  found->is_growing = false;
  return absl::OkStatus();
}

absl::Status FakeKernel::NoteRawLogicalVolume(const LogicalVolumeName& volume) {
  LogicalVolume* const found = FindLogicalVolume(volume);
  if (found == nullptr) return NotFound("no " + volume.name);
  found->is_raw = true;
  return absl::OkStatus();
}

absl::Status FakeKernel::RemoveLogicalVolume(const LogicalVolumeName& volume) {
  std::erase_if(lvm_pools[volume.pool].volumes, [&](const LogicalVolume& there) { return there.name == volume.name; });
  return absl::OkStatus();
}

}  // namespace mooring::testing
