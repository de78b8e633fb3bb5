#include "mounter/superblock/ext4_super.h"

#include <endian.h>
#include <fmt/format.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/superblock/crc32c.h"

namespace mooring {
namespace {

constexpr std::size_t kSuperBytes = 1024;
constexpr std::uint64_t kSuperAt = 1024;
constexpr std::size_t kBlocksAt = 0x4, kFirstBlockAt = 0x14, kLogBlockSizeAt = 0x18, kBlocksPerGroupAt = 0x20,
                      kMagicAt = 0x38, kStateAt = 0x3A, kCompatAt = 0x5C, kIncompatAt = 0x60, kRoCompatAt = 0x64,
                      kUuidAt = 0x68, kHashSeedAt = 0xEC, kBlocksHighAt = 0x150, kChecksumAt = 0x3FC;
constexpr std::size_t kJournalUuidAt = 0xD0, kJournalInodeAt = 0xE0, kJournalDeviceAt = 0xE4,
                      kDefaultMountOptionsAt = 0x100, kMountOptionsAt = 0x200, kMountOptionsBytes = 64;
constexpr std::uint16_t kMagic = 0xEF53;
constexpr std::uint32_t kCompatSparseSuper2 = 0x200, kIncompatMetaBg = 0x10, kIncompat64Bit = 0x80,
                        kIncompatChecksumSeed = 0x2000, kRoCompatSparseSuper = 0x1, kRoCompatMetadataChecksum = 0x400;

using Super = std::array<char, kSuperBytes>;

std::uint32_t Load(const Super& super, std::size_t at) {
  std::uint32_t number = 0;
  std::memcpy(&number, super.data() + at, sizeof(number));
  return le32toh(number);
}

std::uint64_t BlocksOf(const Super& super) {
  const bool is_64bit = (Load(super, kIncompatAt) & kIncompat64Bit) != 0;
  return Load(super, kBlocksAt) | (is_64bit ? std::uint64_t{Load(super, kBlocksHighAt)} << 32U : 0);
}

absl::StatusOr<Super> ReadAt(int fd, const std::string& path, std::uint64_t place) {
  Super super = {};
  const ssize_t got = ::pread(fd, super.data(), super.size(), static_cast<off_t>(place));
  if (got < 0) return ErrnoStatus(errno, "read the superblock of", path);
  std::uint16_t magic = 0;
  std::memcpy(&magic, super.data() + kMagicAt, sizeof(magic));
  if (static_cast<std::size_t>(got) == super.size() && le16toh(magic) == kMagic) return super;
  return FailedPrecondition(fmt::format("{} has no superblock of an ext4 at byte {}", Quote(path), place));
}

// The layout of FormatFilesystem's mkfs.ext4. Other features change where the copies and checksums are.
absl::Status CheckLayout(const Super& super, const std::string& path) {
  const bool usual = (Load(super, kCompatAt) & kCompatSparseSuper2) == 0 &&
                     (Load(super, kIncompatAt) & (kIncompatChecksumSeed | kIncompatMetaBg)) == kIncompatChecksumSeed &&
                     (Load(super, kRoCompatAt) & kRoCompatSparseSuper) != 0 &&
                     (Load(super, kRoCompatAt) & kRoCompatMetadataChecksum) != 0 && Load(super, kLogBlockSizeAt) == 2 &&
                     Load(super, kFirstBlockAt) == 0 && Load(super, kBlocksPerGroupAt) != 0;
  if (usual) return absl::OkStatus();
  return FailedPrecondition(fmt::format("the ext4 in {} gets no new UUID: it has other features", Quote(path)));
}

bool IsPowerOf(std::uint64_t base, std::uint64_t number) {
  while (number % base == 0) number /= base;
  return number == 1;
}

// sparse_super: a copy in group 1 and in those of the powers of 3, 5 and 7.
std::vector<std::uint64_t> PlacesOf(const Super& super) {
  const std::uint64_t group_bytes = std::uint64_t{Load(super, kBlocksPerGroupAt)} * 4096;
  const std::uint64_t bytes = BlocksOf(super) * 4096;
  std::vector<std::uint64_t> places = {kSuperAt};
  for (std::uint64_t group = 1; group * group_bytes < bytes; ++group) {
    if (IsPowerOf(3, group) || IsPowerOf(5, group) || IsPowerOf(7, group)) places.push_back(group * group_bytes);
  }
  return places;
}

void StoreChecksum(Super& super) {
  const std::uint32_t sum = htole32(Crc32cUpdate(~std::uint32_t{0}, std::string_view(super.data(), kChecksumAt)));
  std::memcpy(super.data() + kChecksumAt, &sum, sizeof(sum));
}

// Empty where all bytes are zero.
std::string UuidText(const Super& super, std::size_t at) {
  uuid_t uuid;
  std::memcpy(uuid, super.data() + at, sizeof(uuid));
  if (uuid_is_null(uuid) != 0) return "";
  std::array<char, UUID_STR_LEN> text = {};
  uuid_unparse_lower(uuid, text.data());
  return text.data();
}

absl::Status WriteAt(const UniqueFd& file, const std::string& path, std::uint64_t place, const Super& super) {
  const ssize_t put = ::pwrite(file.get(), super.data(), super.size(), static_cast<off_t>(place));
  if (put == static_cast<ssize_t>(super.size())) return absl::OkStatus();
  return ErrnoStatus(put < 0 ? errno : ENOSPC, "write the superblock of", path);
}

}  // namespace

absl::StatusOr<Ext4Super> ReadExt4Super(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Super super, ReadAt(fd, path, kSuperAt));
  const std::string_view bytes(super.data(), super.size());
  const std::string_view options = bytes.substr(kMountOptionsAt, kMountOptionsBytes);
  return Ext4Super{.state = static_cast<std::uint16_t>(Load(super, kStateAt)),
                   .compat = Load(super, kCompatAt),
                   .incompat = Load(super, kIncompatAt),
                   .bytes = BlocksOf(super) << (10 + (Load(super, kLogBlockSizeAt) & 0xFU)),
                   .log_block_size = Load(super, kLogBlockSizeAt),
                   .blocks_per_group = Load(super, kBlocksPerGroupAt),
                   .journal_inode = Load(super, kJournalInodeAt),
                   .journal_device = Load(super, kJournalDeviceAt),
                   .journal_uuid = UuidText(super, kJournalUuidAt),
                   .default_mount_options = Load(super, kDefaultMountOptionsAt),
                   .mount_options = std::string(options.substr(0, options.find('\0')))};
}

absl::Status RenewFreshExt4(const UniqueFd& file, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Super first, ReadAt(file.get(), path, kSuperAt));
  MOORING_RETURN_IF_ERROR(CheckLayout(first, path));
  uuid_t uuid, seed;
  uuid_generate_random(uuid);
  uuid_generate_random(seed);
  for (const std::uint64_t place : PlacesOf(first)) {
    MOORING_ASSIGN_OR_RETURN(Super super, ReadAt(file.get(), path, place));
    std::memcpy(super.data() + kUuidAt, uuid, sizeof(uuid));
    std::memcpy(super.data() + kHashSeedAt, seed, sizeof(seed));
    StoreChecksum(super);
    MOORING_RETURN_IF_ERROR(WriteAt(file, path, place, super));
  }
  return absl::OkStatus();
}

}  // namespace mooring
