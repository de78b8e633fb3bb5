#include "mounter/superblock/btrfs_super.h"

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/path/target.h"
#include "mounter/superblock/crc32c.h"

namespace mooring {
namespace {

constexpr std::size_t kSuperBytes = 4096;
constexpr std::uint64_t kSuperAt = 64U << 10U;
constexpr std::array<std::uint64_t, 3> kCopiesAt = {kSuperAt, std::uint64_t{64} << 20U, std::uint64_t{256} << 30U};

// Within a superblock.
constexpr std::size_t kChecksumBytes = 32;
constexpr std::size_t kUuidAt = 32, kPlaceAt = 48, kFlagsAt = 56, kMagicAt = 64, kTotalBytesAt = 112, kDevicesAt = 136,
                      kIncompatAt = 188, kChecksumTypeAt = 196, kDeviceIdAt = 201, kMetadataUuidAt = 571;
constexpr std::string_view kMagic = "_BHRfS_M";
constexpr std::uint64_t kIncompatMetadataUuid = 1U << 10U;
constexpr std::uint64_t kFlagSeeding = std::uint64_t{1} << 32U;
constexpr std::uint16_t kCrc32c = 0;

using Super = std::array<char, kSuperBytes>;

std::uint64_t Load(const Super& super, std::size_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, super.data() + at, sizeof(number));
  return le64toh(number);
}

void Store(Super& super, std::size_t at, std::uint64_t number) {
  number = htole64(number);
  std::memcpy(super.data() + at, &number, sizeof(number));
}

std::uint16_t ChecksumType(const Super& super) {
  std::uint16_t type = 0;
  std::memcpy(&type, super.data() + kChecksumTypeAt, sizeof(type));
  return le16toh(type);
}

std::uint32_t Checksum(const Super& super) {
  return Crc32c(std::string_view(super.data() + kChecksumBytes, super.size() - kChecksumBytes));
}

void StoreChecksum(Super& super) {
  const std::uint32_t sum = htole32(Checksum(super));
  std::memset(super.data(), 0, kChecksumBytes);
  std::memcpy(super.data(), &sum, sizeof(sum));
}

bool HasRightChecksum(const Super& super) {
  std::uint32_t sum = 0;
  std::memcpy(&sum, super.data(), sizeof(sum));
  return le32toh(sum) == Checksum(super);
}

bool IsSuper(const Super& super, std::uint64_t place) {
  return std::string_view(super.data() + kMagicAt, kMagic.size()) == kMagic && Load(super, kPlaceAt) == place;
}

absl::StatusOr<Super> ReadAt(int fd, const std::string& path, std::uint64_t place) {
  Super super = {};
  const ssize_t got = ::pread(fd, super.data(), super.size(), static_cast<off_t>(place));
  if (got < 0) return ErrnoStatus(errno, "read the superblock of", path);
  if (static_cast<std::size_t>(got) == super.size() && IsSuper(super, place)) return super;
  return FailedPrecondition(fmt::format("{} has no superblock of a btrfs at byte {}", Quote(path), place));
}

absl::Status WriteAt(int fd, const std::string& path, std::uint64_t place, const Super& super) {
  const ssize_t put = ::pwrite(fd, super.data(), super.size(), static_cast<off_t>(place));
  if (put == static_cast<ssize_t>(super.size())) return absl::OkStatus();
  return ErrnoStatus(put < 0 ? errno : ENOSPC, "write the superblock of", path);
}

// A btrfs of another kind is no volume, or its UUID is not in the superblocks alone.
absl::Status CheckRenewable(const Super& super, const std::string& path) {
  const char* problem = nullptr;
  if (ChecksumType(super) != kCrc32c)
    problem = "its checksums are none of crc32c";
  else if (!HasRightChecksum(super))
    problem = "the checksum of its superblock is wrong";
  else if (Load(super, kDevicesAt) != 1)
    problem = "it is on several devices";
  else if ((Load(super, kFlagsAt) & kFlagSeeding) != 0)
    problem = "it is a seed for others";
  if (problem == nullptr) return absl::OkStatus();
  return FailedPrecondition(fmt::format("the btrfs in {} gets no new UUID: {}", Quote(path), problem));
}

void SetUuid(Super& super, const uuid_t& uuid) {
  if ((Load(super, kIncompatAt) & kIncompatMetadataUuid) == 0) {
    std::memcpy(super.data() + kMetadataUuidAt, super.data() + kUuidAt, sizeof(uuid_t));
    Store(super, kIncompatAt, Load(super, kIncompatAt) | kIncompatMetadataUuid);
  }
  std::memcpy(super.data() + kUuidAt, uuid, sizeof(uuid_t));
  StoreChecksum(super);
}

}  // namespace

absl::StatusOr<BtrfsSuper> ReadBtrfsSuper(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Super super, ReadAt(fd, path, kSuperAt));
  return BtrfsSuper{.total_bytes = Load(super, kTotalBytesAt),
                    .devices = Load(super, kDevicesAt),
                    .device_id = Load(super, kDeviceIdAt),
                    .flags = Load(super, kFlagsAt),
                    .incompat = Load(super, kIncompatAt)};
}

absl::Status RenewBtrfs(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd fd, OpenNoSymlinks(path, O_RDWR | O_NONBLOCK));
  MOORING_ASSIGN_OR_RETURN(const Super first, ReadAt(fd.get(), path, kSuperAt));
  MOORING_RETURN_IF_ERROR(CheckRenewable(first, path));
  uuid_t uuid;
  uuid_generate_random(uuid);
  for (const std::uint64_t place : kCopiesAt) {
    if (place + kSuperBytes > Load(first, kTotalBytesAt)) break;
    MOORING_ASSIGN_OR_RETURN(Super super, ReadAt(fd.get(), path, place));
    SetUuid(super, uuid);
    MOORING_RETURN_IF_ERROR(WriteAt(fd.get(), path, place, super));
  }
  return absl::OkStatus();
}

}  // namespace mooring
