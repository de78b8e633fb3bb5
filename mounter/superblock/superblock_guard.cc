#include "mounter/superblock/superblock_guard.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/superblock/btrfs_super.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/xfs_super.h"

namespace mooring {
namespace {

struct Finding {
  std::string field, value;
  std::string reason;
  std::string remedy;
};

using Findings = std::optional<Finding>;

constexpr std::string_view kNewFilesystem = "copy the files to a new filesystem";

// A flag in one of the fields of a superblock.
struct FlagRule {
  std::uint64_t flag;
  std::string_view name;
  std::string_view reason;
  std::string_view remedy;  // "{}" is the path
};

template <std::size_t kCount>
Findings FindFlag(const std::array<FlagRule, kCount>& rules, std::string_view field, std::uint64_t value,
                  const std::string& path) {
  for (const FlagRule& rule : rules) {
    if ((value & rule.flag) == 0) continue;
    return Finding{std::string(field), fmt::format("{:#x} ({})", value, rule.name), std::string(rule.reason),
                   fmt::format(fmt::runtime(rule.remedy), path)};
  }
  return std::nullopt;
}

constexpr char kOtherDevice[] = "the kernel or e2fsck would open another block device that the image names";

constexpr std::array kExt4Incompat = {
    FlagRule{0x8, "journal_dev", "it is the journal of another filesystem, and none itself",
             "format it anew (mkfs.ext4 {})"},
    FlagRule{0x100, "mmp", "multi-mount protection lets the image say how long each mount waits",
             "run: tune2fs -f -E clear_mmp {0}; tune2fs -O ^mmp {0}"},
};

constexpr std::array kExt4DefaultOptions = {
    FlagRule{0x1, "debug", "the kernel would log more", "run: tune2fs -o ^debug {}"},
    FlagRule{0x10, "uid16", "user ids would be cut to 16 bits, which makes 65536 root", "run: tune2fs -o ^uid16 {}"},
    FlagRule{0x100, "nobarrier", "a power cut would lose what fsync(2) promised", "run: tune2fs -o ^nobarrier {}"},
};

// The modes of the journal share two bits.
constexpr std::uint32_t kJournalMode = 0x60, kJournalModeData = 0x20, kJournalModeWriteback = 0x60;
constexpr std::uint32_t kKnownDefaultOptions = 0xFFF;

Findings FindDefaultOption(std::uint32_t options, const std::string& path) {
  constexpr std::string_view kField = "s_default_mount_opts";
  if (Findings found = FindFlag(kExt4DefaultOptions, kField, options, path)) return found;
  const std::uint32_t mode = options & kJournalMode;
  if (mode == kJournalModeData || mode == kJournalModeWriteback) {
    const std::string_view name = mode == kJournalModeData ? "journal_data" : "journal_data_writeback";
    return Finding{std::string(kField), fmt::format("{:#x} ({})", options, name),
                   "the request chooses the journal's mode (mount flag data=)",
                   fmt::format("run: tune2fs -o ^{} {}", name, path)};
  }
  if ((options & ~kKnownDefaultOptions) == 0) return std::nullopt;
  return Finding{std::string(kField), fmt::format("{:#x}", options), "what the unknown flags do is not known",
                 std::string(kNewFilesystem)};
}

Findings FindExternalJournal(const Ext4Super& super, const std::string& path) {
  constexpr std::uint32_t kCompatHasJournal = 0x4, kJournalInode = 8;
  const std::string remedy =
      fmt::format("run: tune2fs -f -O ^has_journal {0}; e2fsck -f {0}; tune2fs -O has_journal {0}", path);
  if (!super.journal_uuid.empty()) return Finding{"s_journal_uuid", super.journal_uuid, kOtherDevice, remedy};
  if (super.journal_device != 0) {
    return Finding{"s_journal_dev", fmt::format("{:#x}", super.journal_device), kOtherDevice, remedy};
  }
  if ((super.compat & kCompatHasJournal) == 0 || super.journal_inode == kJournalInode) return std::nullopt;
  return Finding{"s_journal_inum", std::to_string(super.journal_inode), "a journal inside of an ext4 is inode 8",
                 remedy};
}

// Each group takes kernel memory while the filesystem is mounted. mkfs.ext4 gives a group 8 blocks for each byte of a
// block. The limit here is an eighth of that.
Findings FindSmallGroups(const Ext4Super& super) {
  if (super.log_block_size > kMostExt4LogBlockSize) return std::nullopt;  // the kernel refuses it
  const std::uint32_t least = 1024U << super.log_block_size;
  if (super.blocks_per_group >= least) return std::nullopt;
  return Finding{"s_blocks_per_group", std::to_string(super.blocks_per_group),
                 "so many small groups would fill the kernel's memory", std::string(kNewFilesystem)};
}

absl::StatusOr<Findings> FindInExt4(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const Ext4Super super, ReadExt4Super(fd, path));
  if (Findings found = FindFlag(kExt4Incompat, "s_feature_incompat", super.incompat, path)) return found;
  if (Findings found = FindExternalJournal(super, path)) return found;
  if (!super.mount_options.empty()) {
    return Findings({"s_mount_opts", Quote(super.mount_options),
                     "the image would choose the options that it is mounted with",
                     fmt::format("run: tune2fs -E mount_opts= {}", path)});
  }
  if (Findings found = FindDefaultOption(super.default_mount_options, path)) return found;
  return FindSmallGroups(super);
}

constexpr std::uint32_t kXfsIncompatMetadataDirectory = 0x100;

constexpr std::array kXfsIncompat = {
    FlagRule{0x10, "needsrepair", "a repair of it did not end", "run: xfs_repair {}"},
};

// Without a metadata directory (Linux 6.13) the kernel turns quotas on by mount options alone, and clears these flags.
absl::StatusOr<Findings> FindInXfs(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const XfsSuper super, ReadXfsSuper(fd, path));
  const std::string remedy(kNewFilesystem);
  if (super.log_start == 0) {
    return Findings({"sb_logstart", "0", "its log is on another device, and a volume is one device", remedy});
  }
  if (super.realtime_blocks != 0 || super.realtime_extents != 0) {
    const bool blocks = super.realtime_blocks != 0;
    return Findings({blocks ? "sb_rblocks" : "sb_rextents",
                     std::to_string(blocks ? super.realtime_blocks : super.realtime_extents),
                     "its realtime section is on another device, and a volume is one device", remedy});
  }
  if (super.quota_flags != 0 && (super.incompat & kXfsIncompatMetadataDirectory) != 0) {
    return Findings({"sb_qflags", fmt::format("{:#x}", super.quota_flags), "the image would turn quotas on", remedy});
  }
  return FindFlag(kXfsIncompat, "sb_features_incompat", super.incompat, path);
}

constexpr std::string_view kUnfinishedUuid = "a change of its UUID did not end";

constexpr std::array kBtrfsFlags = {
    FlagRule{std::uint64_t{1} << 32U, "seeding", "it is a seed for other filesystems", "run: btrfstune -S 0 {}"},
    FlagRule{std::uint64_t{3} << 33U, "metadump", "it is a dump of metadata without the files", kNewFilesystem},
    FlagRule{std::uint64_t{3} << 35U, "changing_fsid", kUnfinishedUuid, "run: btrfstune -m {}"},
};

constexpr std::array kBtrfsIncompat = {
    FlagRule{std::uint64_t{1} << 12U, "zoned", "volumes are not zoned devices", kNewFilesystem},
};

absl::StatusOr<Findings> FindInBtrfs(int fd, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const BtrfsSuper super, ReadBtrfsSuper(fd, path));
  if (super.devices != 1) {
    return Findings({"num_devices", std::to_string(super.devices),
                     fmt::format("it is on {} devices: the kernel would look for others on this host", super.devices),
                     std::string(kNewFilesystem)});
  }
  if (super.device_id == 0) {
    return Findings({"dev_item.devid", "0", "a replacement of its device did not end", std::string(kNewFilesystem)});
  }
  if (Findings found = FindFlag(kBtrfsFlags, "flags", super.flags, path)) return found;
  return FindFlag(kBtrfsIncompat, "incompat_flags", super.incompat, path);
}

absl::StatusOr<Findings> Find(int fd, const std::string& path, std::string_view fs_type) {
  if (IsExt(fs_type)) return FindInExt4(fd, path);
  if (fs_type == "xfs") return FindInXfs(fd, path);
  if (fs_type == "btrfs") return FindInBtrfs(fd, path);
  return Findings();
}

}  // namespace

bool IsExt(std::string_view fs_type) { return fs_type == "ext2" || fs_type == "ext3" || fs_type == "ext4"; }

absl::Status CheckSuperblock(int fd, const std::string& path, std::string_view fs_type) {
  MOORING_ASSIGN_OR_RETURN(const Findings found, Find(fd, path, fs_type));
  if (!found) return absl::OkStatus();
  return FailedPrecondition(
      "the {} in {} is refused, and was not mounted: its superblock says {} = {}, and {}; to use it, {}", fs_type,
      Quote(path), found->field, found->value, found->reason, found->remedy);
}

absl::StatusOr<UniqueFd> OpenChecked(const UniqueFd& place, const std::string& path, std::string_view fs_type) {
  UniqueFd fd(::open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, "open", path);
  MOORING_RETURN_IF_ERROR(CheckSuperblock(fd.get(), path, fs_type));
  return fd;
}

}  // namespace mooring
