// FakeKernel's loop devices, and the filesystems behind them.
#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "tests/fakes/fake_kernel.h"

namespace mooring::testing {
namespace {

constexpr unsigned kLoopMajor = 7;

bool IsSupported(const std::string& fs_type) { return fs_type == "ext4" || fs_type == "xfs" || fs_type == "btrfs"; }

}  // namespace

FakeLoop* FakeKernel::LoopOf(dev_t device) {
  const auto found = major(device) == kLoopMajor ? loops_.find(minor(device)) : loops_.end();
  return found == loops_.end() ? nullptr : &found->second;
}

std::optional<LoopInfo> FakeKernel::LoopInfoOf(dev_t device) const {
  const auto found = major(device) == kLoopMajor ? loops_.find(minor(device)) : loops_.end();
  return found == loops_.end() ? std::nullopt : std::optional<LoopInfo>(InfoOf(found->second));
}

LoopInfo FakeKernel::InfoOf(const FakeLoop& loop) const {
  LoopInfo info = loop.info;
  info.mounted = std::any_of(mounts_.begin(), mounts_.end(),
                             [&info](const FakeMount& mount) { return mount.info.device == info.device_number; });
  return info;
}

FakeLoop* FakeKernel::LoopOver(const std::string& image) {
  if (Find(image).value_or(PathInfo()).kind == PathInfo::Kind::kBlockDevice) return nullptr;
  for (auto& [number, loop] : loops_) {
    if (loop.info.backing_rdev == 0 && loop.info.backing_inode == Node(image).inode) return &loop;
  }
  return nullptr;
}

FakeLoop& FakeKernel::NewLoop(const std::string& backing_file, const std::string& label, bool auto_clear, bool raw) {
  unsigned number = raw ? std::exchange(next_raw_, next_raw_ + 2) : 0;
  while (loops_.contains(number)) ++number;
  const PathInfo backing = Find(backing_file).value_or(PathInfo());
  FakeLoop& loop = loops_[number];
  loop.info.device = fmt::format("/dev/loop{}", number);
  loop.info.device_number = makedev(kLoopMajor, number);
  loop.info.label = label;
  loop.info.auto_clear = auto_clear;
  loop.info.raw = raw;
  if (backing.kind == PathInfo::Kind::kBlockDevice) {
    loop.info.backing_rdev = backing.device;
  } else {
    loop.info.backing_device = makedev(8, 1);
    loop.info.backing_inode = Node(backing_file).inode;
  }
  loop.bytes = BytesOf(loop);
  return loop;
}

// The size of the backing file, or the last known size of the device below.
std::uint64_t FakeKernel::BytesOf(const FakeLoop& loop) {
  if (const FakeLoop* below = LoopOf(loop.info.backing_rdev); below != nullptr) return below->bytes;
  const absl::StatusOr<FakeNode*> image = ImageBehind(loop.info.device_number);
  return image.ok() ? (*image)->bytes : 0;
}

// A bound device node is no user, because nothing has it open.
bool FakeKernel::HasUsers(const LoopInfo& loop) const {
  const bool mounted = std::any_of(mounts_.begin(), mounts_.end(),
                                   [&loop](const FakeMount& mount) { return mount.info.device == loop.device_number; });
  const bool stacked_on = std::any_of(loops_.begin(), loops_.end(), [&loop](const auto& other) {
    return other.second.info.backing_rdev == loop.device_number;
  });
  return mounted || stacked_on;
}

void FakeKernel::DropUnusedLoops() {
  while (std::erase_if(loops_, [this](const auto& entry) {
           return entry.second.info.auto_clear && !HasUsers(entry.second.info);
         }) != 0) {
  }
}

absl::StatusOr<FakeNode*> FakeKernel::ImageBehind(dev_t device) {
  const FakeLoop* loop = LoopOf(device);
  if (loop == nullptr) return ErrnoStatus(ENXIO, "read a loop device that is bound to nothing");
  if (loop->info.backing_rdev != 0) return ImageBehind(loop->info.backing_rdev);
  for (auto& [path, node] : nodes_) {
    if (node.inode == loop->info.backing_inode) return &node;
  }
  return ErrnoStatus(EIO, "read an image that was removed");
}

absl::StatusOr<FakeNode*> FakeKernel::ImageAt(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Find(path));
  if (info.kind == PathInfo::Kind::kBlockDevice) return ImageBehind(info.device);
  if (info.kind == PathInfo::Kind::kRegular) return &Node(path);
  return ErrnoStatus(info.kind == PathInfo::Kind::kMissing ? ENOENT : EISDIR, "open", path);
}

absl::StatusOr<LoopInfo> FakeKernel::AttachLoop(const AttachLoopRequest& request) {
  if (request.label.size() > 63) return InvalidArgument("the label is too long");
  MOORING_RETURN_IF_ERROR(ImageAt(request.backing_file).status());
  FakeLoop* loop = LoopOver(request.backing_file);
  if (loop == nullptr) {
    loop = &NewLoop(request.backing_file, request.label, false, true);
    loop->info.read_only = request.read_only;
    return loop->info;
  }
  if (!loop->info.raw || loop->info.read_only != request.read_only) {
    return FailedPrecondition("{} is in use through {}", Quote(request.backing_file), loop->info.device);
  }
  loop->info.label = request.label;
  loop->info.auto_clear = false;
  loop->bytes = BytesOf(*loop);
  return InfoOf(*loop);
}

void FakeKernel::EndHolds() {
  for (auto& [number, loop] : loops_) {
    if (loop.info.raw) loop.info.label.clear();
  }
}

absl::Status FakeKernel::HoldLoop(const LoopInfo& info) {
  FakeLoop* loop = LoopAsFound(info);
  if (loop == nullptr || !loop->info.raw) return Aborted(info.device + " was detached");
  loop->info.label = info.label;
  loop->info.auto_clear = false;
  return absl::OkStatus();
}

// The device, if it still has the same backing file.
FakeLoop* FakeKernel::LoopAsFound(const LoopInfo& info) {
  FakeLoop* loop = LoopOf(info.device_number);
  return loop != nullptr && loop->info.IsSameDevice(info) ? loop : nullptr;
}

absl::Status FakeKernel::DetachLoop(const LoopInfo& info) {
  FakeLoop* loop = LoopAsFound(info);
  if (loop == nullptr) return absl::OkStatus();
  loop->info.auto_clear = true;
  DropUnusedLoops();
  return absl::OkStatus();
}

absl::Status FakeKernel::ResizeLoop(const LoopInfo& info) {
  FakeLoop* loop = LoopAsFound(info);
  if (loop == nullptr) return FailedPrecondition(info.device + " is no longer the device of its file");
  loop->bytes = BytesOf(*loop);
  return absl::OkStatus();
}

absl::Status FakeKernel::TuneLoop(const LoopInfo& info, const LoopTuning& tuning) {
  FakeLoop* loop = LoopAsFound(info);
  if (loop == nullptr) return FailedPrecondition(info.device + " is no longer the device of its file");
  loop->read_ahead_bytes = tuning.read_ahead_bytes;
  return absl::OkStatus();
}

// All or none.
absl::Status FakeKernel::Copy(const std::vector<ImageCopy>& copies) {
  for (const ImageCopy& copy : copies) {
    if (!nodes_.contains(copy.source)) return ErrnoStatus(ENOENT, "open", copy.source);
    if (nodes_.contains(copy.destination)) return AlreadyExists(copy.destination + " is there already");
  }
  for (const ImageCopy& copy : copies) {
    const FakeNode source = nodes_.at(copy.source);
    AddFile(copy.destination, copy.bytes);
    Node(copy.destination).filesystem = source.filesystem;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LoopInfo>> FakeKernel::FindLoops(const std::string& backing_file) const {
  std::vector<LoopInfo> found = Loops();
  if (backing_file.empty()) return found;
  MOORING_ASSIGN_OR_RETURN(const PathInfo backing, Find(backing_file));
  if (backing.kind == PathInfo::Kind::kMissing) return ErrnoStatus(ENOENT, "look at", backing_file);
  const bool stacked = backing.kind == PathInfo::Kind::kBlockDevice;
  const ino_t inode = stacked ? 0 : nodes_.at(backing_file).inode;
  std::erase_if(found, [&](const LoopInfo& loop) {
    return stacked ? loop.backing_rdev != backing.device : loop.backing_rdev != 0 || loop.backing_inode != inode;
  });
  return found;
}

absl::StatusOr<StatsInfo> FakeKernel::Stats(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Find(path));
  if (info.kind == PathInfo::Kind::kMissing) return ErrnoStatus(ENOENT, "open", path);
  StatsInfo stats;
  if (info.kind == PathInfo::Kind::kBlockDevice) {
    stats.bytes.total = info.loop ? LoopOf(info.device)->bytes : 0;
    return stats;
  }
  MOORING_ASSIGN_OR_RETURN(const FakeNode* image, ImageBehind(info.device));
  stats.bytes = {image->filesystem.size_bytes, 4096, image->filesystem.size_bytes - 4096};
  stats.inodes = {1000, 11, 989};
  const FakeLoop* const loop = LoopOf(info.device);
  if (loop != nullptr && loop->bytes > stats.bytes.total) stats.unused_bytes = loop->bytes - stats.bytes.total;
  return stats;
}

absl::StatusOr<FilesystemInfo> FakeKernel::Probe(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const FakeNode* image, ImageAt(path));
  FilesystemInfo info;
  info.content = image->filesystem.content;
  info.type = image->filesystem.type;
  info.size_bytes = image->filesystem.size_bytes;
  info.device_bytes = image->bytes;
  info.needs_check = image->filesystem.needs_check;
  info.whole = image->filesystem.whole;
  return info;
}

// A new inode: the mounter formats a new file and renames it.
absl::Status FakeKernel::Format(const std::string& path, const std::string& fs_type) {
  if (!IsSupported(fs_type)) return InvalidArgument("format as {}", Quote(fs_type));
  MOORING_ASSIGN_OR_RETURN(FakeNode * image, ImageAt(path));
  if (image->filesystem.content != FilesystemInfo::Content::kEmpty) {
    return FailedPrecondition("{} is not empty", Quote(path));
  }
  image->filesystem = {.content = FilesystemInfo::Content::kFilesystem, .type = fs_type, .size_bytes = image->bytes};
  image->inode = next_inode_++;
  return absl::OkStatus();
}

absl::Status FakeKernel::Check(const std::string& path, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(FakeNode * image, ImageAt(path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, FindLoops(path));
  if (!loops.empty() || fs_type != image->filesystem.type) {
    return FailedPrecondition("check {} as {} while it is in use", Quote(path), fs_type);
  }
  image->filesystem.needs_check = false;
  return absl::OkStatus();
}

absl::Status FakeKernel::Grow(const std::string& path, const std::string& fs_type) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Find(path));
  const bool mounted = info.kind == PathInfo::Kind::kDirectory;
  MOORING_ASSIGN_OR_RETURN(FakeNode * image, mounted ? ImageBehind(info.device) : ImageAt(path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<LoopInfo> loops, mounted ? std::vector<LoopInfo>() : FindLoops(path));
  if (fs_type != image->filesystem.type || (!mounted && (fs_type != "ext4" || !loops.empty()))) {
    return FailedPrecondition("grow the {} filesystem of {}", fs_type, Quote(path));
  }
  image->filesystem.size_bytes = mounted ? LoopOf(info.device)->bytes : image->bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeKernel::HealthProblem(const std::string& mount_path) {
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, Find(mount_path));
  if (!info.mount) return NotFound("nothing is mounted at {}", Quote(mount_path));
  MOORING_ASSIGN_OR_RETURN(const FakeNode* image, ImageBehind(info.device));
  return image->filesystem.health_problem;
}

}  // namespace mooring::testing
