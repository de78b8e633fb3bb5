#include "mounter/superblock/ext4_super.h"

#include <sys/stat.h>
#include <uuid/uuid.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/superblock/crc32c.h"
#include "mounter/superblock/raw_super.h"

namespace mooring {
namespace {

constexpr SuperLayout kLayout = {.filesystem = "an ext4", .bytes = 1024, .magic_at = 0x38, .magic = "\x53\xEF"};
constexpr std::uint64_t kSuperAt = 1024, kBlockBytes = 4096;  // CheckLayout refuses other sizes of blocks
constexpr std::size_t kBlocksAt = 0x4, kFirstBlockAt = 0x14, kLogBlockSizeAt = 0x18, kBlocksPerGroupAt = 0x20,
                      kInodesPerGroupAt = 0x28, kStateAt = 0x3A, kInodeBytesAt = 0x58, kCompatAt = 0x5C,
                      kIncompatAt = 0x60, kRoCompatAt = 0x64, kUuidAt = 0x68, kReservedDescriptorBlocksAt = 0xCE,
                      kHashSeedAt = 0xEC, kDescriptorBytesAt = 0xFE, kBlocksHighAt = 0x150, kChecksumAt = 0x3FC;
constexpr std::size_t kJournalUuidAt = 0xD0, kJournalInodeAt = 0xE0, kJournalDeviceAt = 0xE4,
                      kDefaultMountOptionsAt = 0x100, kErrorCountAt = 0x194, kMountOptionsAt = 0x200,
                      kMountOptionsBytes = 64;
constexpr std::uint32_t kCompatSparseSuper2 = 0x200, kIncompatMetaBg = 0x10, kIncompat64Bit = 0x80,
                        kIncompatChecksumSeed = 0x2000, kRoCompatSparseSuper = 0x1;

std::uint32_t Load(const std::string& super, std::size_t at) { return LoadLittle<std::uint32_t>(super, at); }

bool Is64Bit(const std::string& super) { return (Load(super, kIncompatAt) & kIncompat64Bit) != 0; }

std::uint64_t BlocksOf(const std::string& super) {
  return Load(super, kBlocksAt) | (Is64Bit(super) ? std::uint64_t{Load(super, kBlocksHighAt)} << 32U : 0);
}

unsigned BlockShift(std::uint32_t log_block_size) { return 10 + (log_block_size & 0xFU); }

std::uint64_t BlocksFor(const std::string& super, std::uint64_t bytes) {
  const unsigned shift = BlockShift(Load(super, kLogBlockSizeAt));
  return (bytes + (std::uint64_t{1} << shift) - 1) >> shift;
}

std::uint64_t BlocksOfTables(const std::string& super) {
  const std::uint64_t inode_bytes = LoadLittle<std::uint16_t>(super, kInodeBytesAt);
  return 2 + BlocksFor(super, Load(super, kInodesPerGroupAt) * inode_bytes);
}

std::uint64_t BlocksOfCopy(const std::string& super) {
  const std::uint64_t groups = BlocksOf(super) / std::max(Load(super, kBlocksPerGroupAt), 1U) + 1;
  const std::uint64_t descriptor_bytes = Is64Bit(super) ? LoadLittle<std::uint16_t>(super, kDescriptorBytesAt) : 32;
  return 1 + BlocksFor(super, groups * descriptor_bytes) +
         LoadLittle<std::uint16_t>(super, kReservedDescriptorBlocksAt);
}

// The layout of FormatFilesystem's mkfs.ext4. Other features change where the copies and checksums are.
absl::Status CheckLayout(const std::string& super, const std::string& path) {
  const bool usual = (Load(super, kCompatAt) & kCompatSparseSuper2) == 0 &&
                     (Load(super, kIncompatAt) & (kIncompatChecksumSeed | kIncompatMetaBg)) == kIncompatChecksumSeed &&
                     (Load(super, kRoCompatAt) & kRoCompatSparseSuper) != 0 &&
                     (Load(super, kRoCompatAt) & kExt4RoCompatMetadataChecksum) != 0 &&
                     Load(super, kLogBlockSizeAt) == 2 && Load(super, kFirstBlockAt) == 0 &&
                     Load(super, kBlocksPerGroupAt) != 0;
  if (usual) return absl::OkStatus();
  return FailedPrecondition("the ext4 in {} gets no new UUID: it has other features", Quote(path));
}

// More blocks would be more groups than a call can go through.
absl::Status CheckFits(const std::string& super, int fd, const std::string& path) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "look at", path);
  if (BlocksOf(super) <= static_cast<std::uint64_t>(status.st_size) / kBlockBytes) return absl::OkStatus();
  return FailedPrecondition("the ext4 in {} gets no new UUID: it has {} blocks, more than its file", Quote(path),
                            BlocksOf(super));
}

bool IsPowerOf(std::uint64_t base, std::uint64_t number) {
  while (number % base == 0) number /= base;
  return number == 1;
}

// sparse_super: in group 1, and in those of the powers of 3, 5 and 7. Not for group 0, which has the superblock itself.
bool HasCopy(std::uint64_t group) { return IsPowerOf(3, group) || IsPowerOf(5, group) || IsPowerOf(7, group); }

std::vector<std::uint64_t> PlacesOf(const std::string& super) {
  const std::uint64_t group_bytes = std::uint64_t{Load(super, kBlocksPerGroupAt)} * kBlockBytes;
  const std::uint64_t bytes = BlocksOf(super) * kBlockBytes;
  std::vector<std::uint64_t> places = {kSuperAt};
  for (std::uint64_t group = 1; group * group_bytes < bytes; ++group) {
    if (HasCopy(group)) places.push_back(group * group_bytes);
  }
  return places;
}

void StoreChecksum(std::string& super) {
  StoreLittle(super, kChecksumAt, Crc32cUpdate(~std::uint32_t{0}, std::string_view(super).substr(0, kChecksumAt)));
}

// Empty where all bytes are zero.
std::string UuidText(const std::string& super, std::size_t at) {
  uuid_t uuid;
  std::memcpy(uuid, super.data() + at, sizeof(uuid));
  if (uuid_is_null(uuid) != 0) return "";
  std::array<char, UUID_STR_LEN> text = {};
  uuid_unparse_lower(uuid, text.data());
  return text.data();
}

}  // namespace

absl::StatusOr<Ext4Super> ReadExt4Super(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string super, ReadSuper(fd, path, kLayout, kSuperAt));
  const std::string options = super.substr(kMountOptionsAt, kMountOptionsBytes);
  return Ext4Super{.uuid = super.substr(kUuidAt, kUuidBytes),
                   .state = static_cast<std::uint16_t>(Load(super, kStateAt)),
                   .compat = Load(super, kCompatAt),
                   .incompat = Load(super, kIncompatAt),
                   .ro_compat = Load(super, kRoCompatAt),
                   .bytes = BlocksOf(super) << BlockShift(Load(super, kLogBlockSizeAt)),
                   .log_block_size = Load(super, kLogBlockSizeAt),
                   .blocks_per_group = Load(super, kBlocksPerGroupAt),
                   .journal_inode = Load(super, kJournalInodeAt),
                   .journal_device = Load(super, kJournalDeviceAt),
                   .journal_uuid = UuidText(super, kJournalUuidAt),
                   .default_mount_options = Load(super, kDefaultMountOptionsAt),
                   .mount_options = options.substr(0, options.find('\0')),
                   .errors = Load(super, kErrorCountAt),
                   .blocks_of_tables = BlocksOfTables(super),
                   .blocks_of_copy = BlocksOfCopy(super)};
}

bool CanGrowTo(const Ext4Super& super, std::uint64_t device_bytes) {
  constexpr std::uint64_t kResize2fsWantsFree = 50;
  const unsigned shift = BlockShift(super.log_block_size);
  const std::uint64_t first = super.log_block_size == 0 ? 1 : 0;  // block 0 of blocks of 1 KiB is no group's
  const std::uint64_t now = super.bytes >> shift, wanted = device_bytes >> shift, per_group = super.blocks_per_group;
  if (wanted <= now) return false;
  if (now <= first || per_group == 0) return true;  // a superblock that makes no sense is for e2fsck
  if ((now - first) % per_group != 0) return true;  // the last group is not full
  const std::uint64_t group = (now - first) / per_group;
  const std::uint64_t own = super.blocks_of_tables + (HasCopy(group) ? super.blocks_of_copy : 0);
  return wanted - now >= own + kResize2fsWantsFree;
}

absl::Status RenewFreshExt4(const UniqueFd& file, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string first, ReadSuper(file.get(), path, kLayout, kSuperAt));
  MOORING_RETURN_IF_ERROR(CheckLayout(first, path));
  MOORING_RETURN_IF_ERROR(CheckFits(first, file.get(), path));
  const std::string uuid = RandomUuid(), seed = RandomUuid();
  for (const std::uint64_t place : PlacesOf(first)) {
    MOORING_ASSIGN_OR_RETURN(std::string super, ReadSuper(file.get(), path, kLayout, place));
    super.replace(kUuidAt, kUuidBytes, uuid);
    super.replace(kHashSeedAt, kUuidBytes, seed);
    StoreChecksum(super);
    MOORING_RETURN_IF_ERROR(WriteSuper(file.get(), path, place, super));
  }
  return absl::OkStatus();
}

}  // namespace mooring
