// Superblocks that a tenant wrote, through the readers, the probe, the guard, and the change of the UUID.
//
// The first byte of an input chooses the filesystem (modulo 3: ext4, xfs, btrfs). A second byte that is odd gives the
// superblock the right checksum. The rest is the superblock.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/filesystem/filesystem.h"
#include "mounter/superblock/btrfs_super.h"
#include "mounter/superblock/crc32c.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/raw_super.h"
#include "mounter/superblock/superblock_guard.h"
#include "mounter/superblock/xfs_super.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace mooring::fuzz {
namespace {

constexpr off_t kBytes = 1 << 20;

struct Kind {
  const char* fs_type;
  off_t at;
  std::size_t bytes;
};
constexpr Kind kKinds[] = {{"ext4", 1024, 1024}, {"xfs", 0, 512}, {"btrfs", 65536, 4096}};

struct Image {
  testing::TempDir directory;
  std::string path = std::string(directory.path()) + "/image";
  UniqueFd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};

  void Fill(const Kind& kind, const std::string& super) const {
    Require(::ftruncate(fd.get(), 0) == 0 && ::ftruncate(fd.get(), kBytes) == 0, "the image can be emptied");
    Require(WriteSuper(fd.get(), path, static_cast<std::uint64_t>(kind.at), super).ok(), "the image can be written");
  }
  std::string Super(const Kind& kind) const {
    std::string super(kind.bytes, '\0');
    Require(::pread(fd.get(), super.data(), super.size(), kind.at) == static_cast<ssize_t>(super.size()),
            "it is whole");
    return super;
  }
};

void SetChecksum(const Kind& kind, std::string& super) {
  const std::string_view text = super;
  if (kind.fs_type == std::string_view("ext4")) {
    StoreLittle(super, 0x3FC, Crc32cUpdate(~std::uint32_t{0}, text.substr(0, 0x3FC)));
  } else if (kind.fs_type == std::string_view("btrfs")) {
    std::fill(super.begin(), super.begin() + 32, '\0');
    StoreLittle(super, 0, Crc32c(text.substr(32)));
  }
}

void CheckRefusal(const absl::Status& status) {
  if (status.ok()) return;
  Require(absl::IsFailedPrecondition(status), "a bad superblock is FAILED_PRECONDITION", Message(status));
  Require(!HasControlByte(Message(status)) && IsUtf8(Message(status)), "an error has no control characters",
          Message(status));
}

// Names fields that the guard must refuse, without a look at its tables.
void CheckAccepted(const Image& image, const Kind& kind) {
  const std::string_view type = kind.fs_type;
  if (type == "ext4") {
    const auto super = ReadExt4Super(image.fd.get(), image.path);
    constexpr std::uint32_t kJournalDevice = 0x8, kMultiMount = 0x100;
    Require(super.ok() && (super->incompat & (kJournalDevice | kMultiMount)) == 0 && super->journal_uuid.empty() &&
                super->journal_device == 0 && super->mount_options.empty(),
            "an ext4 that is accepted has no other device and no mount options");
  } else if (type == "xfs") {
    const auto super = ReadXfsSuper(image.fd.get(), image.path);
    Require(super.ok() && super->log_start != 0 && super->realtime_blocks == 0, "an xfs has no other device");
  } else {
    const auto super = ReadBtrfsSuper(image.fd.get(), image.path);
    constexpr std::uint64_t kSeeding = std::uint64_t{1} << 32U;
    Require(super.ok() && super->devices == 1 && (super->flags & kSeeding) == 0, "a btrfs has no other device");
  }
}

void CheckProbe(const Image& image, const Kind& kind) {
  const auto info = ProbeFilesystem(image.path);
  if (!info.ok()) return CheckRefusal(info.status());
  const std::string super = image.Super(kind);
  const bool is_zero = std::all_of(super.begin(), super.end(), [](char byte) { return byte == 0; });
  Require(is_zero || info->content != FilesystemInfo::Content::kEmpty, "data are never taken for nothing");
  if (info->content != FilesystemInfo::Content::kFilesystem) return;
  Require(IsExt(info->type) || info->type == "xfs" || info->type == "btrfs", "a volume has a type that is known");
  if (!IsExt(info->type)) return;
  const auto ext = ReadExt4Super(image.fd.get(), image.path);
  Require(ext.ok(), "the type has its superblock");
  Require(!CanGrowTo(*ext, info->size_bytes), "no filesystem grows to its own size");
  CanGrowTo(*ext, ~std::uint64_t{0});  // whatever its answer is, it must come to an end
}

void CheckRenewal(const Image& image, const Kind& kind, const std::string& before) {
  const std::string_view type = kind.fs_type;
  if (type == "xfs") return;  // xfs_db does it
  const absl::Status renewed = type == "ext4" ? RenewFreshExt4(image.fd, image.path) : RenewBtrfs(image.path);
  std::string after = image.Super(kind);
  if (!renewed.ok()) return CheckRefusal(renewed);
  Require(after != before, "the UUID is another one");
  Require(CheckSuperblock(image.fd.get(), image.path, type).ok(), "the result is accepted");
  std::string summed = after;
  SetChecksum(kind, summed);
  Require(summed == after, "the checksum is right");
}

}  // namespace

void TryOne(const std::uint8_t* data, std::size_t size) {
  static const Image& image = *new Image;
  if (size < 2) return;
  const Kind& kind = kKinds[data[0] % 3];
  std::string super(Text(data + 2, size - 2));
  super.resize(kind.bytes);
  if (data[1] % 2 == 1) SetChecksum(kind, super);
  image.Fill(kind, super);
  for (const Kind& other : kKinds) CheckRefusal(CheckSuperblock(image.fd.get(), image.path, other.fs_type));
  CheckProbe(image, kind);
  if (!CheckSuperblock(image.fd.get(), image.path, kind.fs_type).ok()) return;
  CheckAccepted(image, kind);
  CheckRenewal(image, kind, super);
}

}  // namespace mooring::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mooring::fuzz::TryOne(data, size);
  return 0;
}
