#include <blkid/blkid.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/image/image.h"
#include "mounter/path/mapping_names.h"
#include "mounter/path/target.h"
#include "mounter/superblock/btrfs_super.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/xfs_super.h"
#include "mounter/sys/clear_device.h"

namespace mooring {
namespace {

// Filesystems, partition tables and RAID members have their signatures in these parts.
constexpr std::uint64_t kHeadBytes = 4U << 20U;
constexpr std::uint64_t kTailBytes = 1U << 20U;

absl::StatusOr<std::uint64_t> SizeOf(int fd, const std::string& path) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (S_ISREG(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
  std::uint64_t bytes = 0;
  if (!S_ISBLK(status.st_mode)) return FailedPrecondition("{} is no file or block device", Quote(path));
  if (::ioctl(fd, BLKGETSIZE64, &bytes) != 0) return ErrnoStatus(errno, "ask for the size of", path);
  return bytes;
}

// A file that is one hole is empty, and needs no reading. A device reports no holes.
bool IsOneHole(int fd) { return ::lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO; }

absl::StatusOr<std::vector<char>> ReadAt(int fd, const std::string& path, std::uint64_t offset, std::uint64_t count) {
  std::vector<char> bytes(count);
  for (std::uint64_t have = 0; have < count;) {
    const ssize_t got = ::pread(fd, bytes.data() + have, count - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path);
    if (got == 0) return Internal("read {}: it ends early", Quote(path));
    have += static_cast<std::uint64_t>(got);
  }
  return bytes;
}

absl::StatusOr<bool> IsZero(int fd, const std::string& path, std::uint64_t offset, std::uint64_t count) {
  constexpr std::uint64_t kChunk = 1U << 20U;
  for (const std::uint64_t end = offset + count; offset < end; offset += kChunk) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<char> bytes, ReadAt(fd, path, offset, std::min(kChunk, end - offset)));
    if (!std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; })) return false;
  }
  return true;
}

absl::StatusOr<bool> HeadAndTailAreZero(int fd, const std::string& path, std::uint64_t size) {
  const std::uint64_t head = std::min(size, kHeadBytes);
  const std::uint64_t tail = std::min(size, kTailBytes);
  MOORING_ASSIGN_OR_RETURN(const bool head_is_zero, IsZero(fd, path, 0, head));
  if (!head_is_zero) return false;
  return IsZero(fd, path, size - tail, tail);
}

// Reads all data of an image file, because a raw block volume may have been written anywhere. Holes are zero.
absl::StatusOr<bool> AllDataIsZero(int fd, const std::string& path) {
  for (off_t at = 0;;) {
    at = ::lseek(fd, at, SEEK_DATA);
    if (at < 0 && errno == ENXIO) return true;
    const off_t hole = at < 0 ? -1 : ::lseek(fd, at, SEEK_HOLE);
    if (hole < 0) return ErrnoStatus(errno, "look for data in", path);
    MOORING_ASSIGN_OR_RETURN(const bool zero,
                             IsZero(fd, path, static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(hole - at)));
    if (!zero) return false;
    at = hole;
  }
}

// The mapping of an encrypted volume.
bool IsOpenedByUs(const struct stat& device) {
  const std::string dm = fmt::format("/sys/dev/block/{}:{}/dm/", major(device.st_rdev), minor(device.st_rdev));
  return FirstLine(dm + "uuid").starts_with("CRYPT-LUKS2-") && FirstLine(dm + "name").starts_with(kMappingPrefix);
}

// Sets `whole`. To read all of a large device would take too long. 128 MiB take a second of a slow disk.
absl::StatusOr<bool> HoldsNothing(int fd, const std::string& path, std::uint64_t size, bool& whole) {
  constexpr std::uint64_t kWholeBytes = 128U << 20U;
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "look at", path);
  whole = S_ISREG(status.st_mode) || size <= kWholeBytes;
  if (S_ISREG(status.st_mode)) return AllDataIsZero(fd, path);
  MOORING_ASSIGN_OR_RETURN(const bool zero, whole ? IsZero(fd, path, 0, size) : HeadAndTailAreZero(fd, path, size));
  if (zero || !IsOpenedByUs(status)) return zero;
  // A new encrypted volume has zeros at its head. Only a write through the mapping can have made them: what was never
  // written, or is damaged, reads as random bytes there. So an empty head says that there is no filesystem, also if the
  // volume has grown since.
  whole = false;
  return IsZero(fd, path, 0, std::min(size, kClearedEnd));
}

// The type that libblkid finds, or "" for nothing known. An ambiguous answer is an error, and not taken for "nothing".
absl::StatusOr<std::string> AskBlkid(int fd, const std::string& path) {
  const std::unique_ptr<blkid_struct_probe, void (*)(blkid_probe)> probe(blkid_new_probe(), blkid_free_probe);
  if (probe == nullptr) return ErrnoStatus(ENOMEM, "probe", path);
  errno = 0;
  if (blkid_probe_set_device(probe.get(), fd, 0, 0) != 0) {
    return errno != 0 ? ErrnoStatus(errno, "probe", path) : Internal("libblkid cannot use {}", Quote(path));
  }
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE);
  blkid_probe_enable_partitions(probe.get(), 1);
  errno = 0;
  const int found = blkid_do_safeprobe(probe.get());
  if (found == 1) return std::string();
  // libblkid 2.41 says -1 of several signatures, too, but then no system call has failed.
  if (found == -2 || (found < 0 && errno == 0)) {
    return FailedPrecondition(
        "{} holds the signatures of several filesystems at once: nothing is done to it; see what wipefs(8) lists",
        Quote(path));
  }
  if (found < 0) return ErrnoStatus(errno, "probe", path);
  const char* type = nullptr;
  if (blkid_probe_lookup_value(probe.get(), "TYPE", &type, nullptr) == 0) return std::string(type);
  if (blkid_probe_lookup_value(probe.get(), "PTTYPE", &type, nullptr) == 0)
    return fmt::format("{} partition table", type);
  return std::string("something unknown");
}

absl::Status ReadExt4(int fd, const std::string& path, FilesystemInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const Ext4Super super, ReadExt4Super(fd, path));
  constexpr std::uint32_t kIncompatRecover = 0x4;
  constexpr std::uint16_t kStateValid = 0x1, kStateError = 0x2;
  if (super.log_block_size > kMostExt4LogBlockSize) {
    return FailedPrecondition("{} holds an ext4 whose superblock makes no sense (block size 2^{} KiB)", Quote(path),
                              super.log_block_size);
  }
  info.size_bytes = super.bytes;
  // The kernel replays a journal by itself. An ext4 that met errors, or one without a journal that was not unmounted,
  // needs e2fsck.
  const bool replay = (super.incompat & kIncompatRecover) != 0;
  info.needs_check = (super.state & kStateError) != 0 || ((super.state & kStateValid) == 0 && !replay);
  return absl::OkStatus();
}

absl::Status ReadXfs(int fd, const std::string& path, FilesystemInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const XfsSuper super, ReadXfsSuper(fd, path));
  info.size_bytes = super.bytes;
  return absl::OkStatus();
}

// A btrfs on several devices is not a filesystem of this one.
absl::Status ReadBtrfs(int fd, const std::string& path, FilesystemInfo& info) {
  MOORING_ASSIGN_OR_RETURN(const BtrfsSuper super, ReadBtrfsSuper(fd, path));
  info.size_bytes = super.total_bytes;
  if (super.devices == 1) return absl::OkStatus();
  info.content = FilesystemInfo::Content::kForeign;
  info.type = fmt::format("btrfs on {} devices", super.devices);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FilesystemInfo> ProbeFilesystem(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDONLY | O_NONBLOCK));
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, "look at", path);
  MOORING_RETURN_IF_ERROR(CheckOneName(status, path));
  FilesystemInfo info;
  MOORING_ASSIGN_OR_RETURN(info.device_bytes, SizeOf(fd.get(), path));
  MOORING_ASSIGN_OR_RETURN(const bool is_cut_short, HasUndoFile(path));
  if (is_cut_short) {  // the image holds neither the old filesystem nor the new one
    info.content = FilesystemInfo::Content::kFilesystem;
    info.type = "ext4";
    info.needs_check = true;
    return info;
  }
  if (info.device_bytes == 0 || IsOneHole(fd.get())) {
    info.content = FilesystemInfo::Content::kEmpty;
    info.whole = true;
    return info;
  }
  MOORING_ASSIGN_OR_RETURN(info.type, AskBlkid(fd.get(), path));
  if (info.type.empty()) {
    MOORING_ASSIGN_OR_RETURN(const bool zero, HoldsNothing(fd.get(), path, info.device_bytes, info.whole));
    info.content = zero ? FilesystemInfo::Content::kEmpty : FilesystemInfo::Content::kForeign;
    if (!zero) info.type = "unknown data";
  } else if (info.type == "ext4") {
    info.content = FilesystemInfo::Content::kFilesystem;
    MOORING_RETURN_IF_ERROR(ReadExt4(fd.get(), path, info));
  } else if (info.type == "xfs") {
    info.content = FilesystemInfo::Content::kFilesystem;
    MOORING_RETURN_IF_ERROR(ReadXfs(fd.get(), path, info));
  } else if (info.type == "btrfs") {
    info.content = FilesystemInfo::Content::kFilesystem;
    MOORING_RETURN_IF_ERROR(ReadBtrfs(fd.get(), path, info));
  }
  return info;
}

}  // namespace mooring
