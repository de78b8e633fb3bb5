#include "mounter/superblock/btrfs_super.h"

#include <fcntl.h>

#include <array>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/superblock/crc32c.h"
#include "mounter/superblock/raw_super.h"

namespace mooring {
namespace {

constexpr SuperLayout kLayout = {.filesystem = "a btrfs", .bytes = 4096, .magic_at = 64, .magic = "_BHRfS_M"};
constexpr std::uint64_t kSuperAt = 64U << 10U;
constexpr std::array<std::uint64_t, 3> kCopiesAt = {kSuperAt, std::uint64_t{64} << 20U, std::uint64_t{256} << 30U};

// Within a superblock.
constexpr std::size_t kChecksumBytes = 32;
constexpr std::size_t kUuidAt = 32, kPlaceAt = 48, kFlagsAt = 56, kGenerationAt = 72, kTotalBytesAt = 112,
                      kDevicesAt = 136, kIncompatAt = 188, kChecksumTypeAt = 196, kDeviceIdAt = 201,
                      kMetadataUuidAt = 571;
constexpr std::uint64_t kIncompatMetadataUuid = 1U << 10U;
constexpr std::uint64_t kFlagSeeding = std::uint64_t{1} << 32U;
constexpr std::uint16_t kCrc32c = 0;

std::uint64_t Load(const std::string& super, std::size_t at) { return LoadLittle<std::uint64_t>(super, at); }

std::uint32_t Checksum(const std::string& super) { return Crc32c(std::string_view(super).substr(kChecksumBytes)); }

void StoreChecksum(std::string& super) {
  super.replace(0, kChecksumBytes, kChecksumBytes, '\0');
  StoreLittle(super, 0, Checksum(super));
}

absl::StatusOr<std::string> ReadAt(int fd, const std::string& path, std::uint64_t place) {
  MOORING_ASSIGN_OR_RETURN(std::string super, ReadSuper(fd, path, kLayout, place));
  if (Load(super, kPlaceAt) == place) return super;
  return FailedPrecondition("{} has no superblock of a btrfs at byte {}: the one there names another place",
                            Quote(path), place);
}

// A btrfs of another kind is no volume, or its UUID is not in the superblocks alone.
absl::Status CheckRenewable(const std::string& super, const std::string& path) {
  const char* problem = nullptr;
  if (LoadLittle<std::uint16_t>(super, kChecksumTypeAt) != kCrc32c)
    problem = "its checksums are none of crc32c";
  else if (LoadLittle<std::uint32_t>(super, 0) != Checksum(super))
    problem = "the checksum of its superblock is wrong";
  else if (Load(super, kDevicesAt) != 1)
    problem = "it is on several devices";
  else if ((Load(super, kFlagsAt) & kFlagSeeding) != 0)
    problem = "it is a seed for others";
  else if (Load(super, kTotalBytesAt) < kSuperAt + kLayout.bytes)
    problem = "it ends before its superblock";
  if (problem == nullptr) return absl::OkStatus();
  return FailedPrecondition("the btrfs in {} gets no new UUID: {}", Quote(path), problem);
}

void SetUuid(std::string& super, const std::string& uuid) {
  if ((Load(super, kIncompatAt) & kIncompatMetadataUuid) == 0) {
    super.replace(kMetadataUuidAt, kUuidBytes, super.substr(kUuidAt, kUuidBytes));
    StoreLittle(super, kIncompatAt, Load(super, kIncompatAt) | kIncompatMetadataUuid);
  }
  super.replace(kUuidAt, kUuidBytes, uuid);
  StoreChecksum(super);
}

}  // namespace

absl::StatusOr<BtrfsSuper> ReadBtrfsSuper(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string super, ReadAt(fd, path, kSuperAt));
  return BtrfsSuper{.total_bytes = Load(super, kTotalBytesAt),
                    .devices = Load(super, kDevicesAt),
                    .device_id = Load(super, kDeviceIdAt),
                    .flags = Load(super, kFlagsAt),
                    .incompat = Load(super, kIncompatAt)};
}

absl::Status CheckBtrfsCopies(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string first, ReadAt(fd, path, kSuperAt));
  for (const std::uint64_t place : kCopiesAt) {
    if (place + kLayout.bytes > Load(first, kTotalBytesAt)) break;
    MOORING_ASSIGN_OR_RETURN(const std::string super, ReadAt(fd, path, place));
    if (Load(super, kGenerationAt) == Load(first, kGenerationAt)) continue;
    return FailedPrecondition("{} has an older superblock of a btrfs at byte {}", Quote(path), place);
  }
  return absl::OkStatus();
}

absl::Status RenewBtrfs(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDWR | O_NONBLOCK));
  MOORING_ASSIGN_OR_RETURN(const std::string first, ReadAt(fd.get(), path, kSuperAt));
  MOORING_RETURN_IF_ERROR(CheckRenewable(first, path));
  const std::string uuid = RandomUuid();
  for (const std::uint64_t place : kCopiesAt) {
    if (place + kLayout.bytes > Load(first, kTotalBytesAt)) break;
    MOORING_ASSIGN_OR_RETURN(std::string super, ReadAt(fd.get(), path, place));
    SetUuid(super, uuid);
    MOORING_RETURN_IF_ERROR(WriteSuper(fd.get(), path, place, super));
  }
  return absl::OkStatus();
}

}  // namespace mooring
