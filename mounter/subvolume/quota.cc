#include "mounter/subvolume/quota.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

// Empty: the file does not exist.
absl::StatusOr<std::string> LineOf(const std::string& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok() && errno == ENOENT) return "";
  std::array<char, 64> text = {};
  const ssize_t size = fd.ok() ? ::read(fd.get(), text.data(), text.size()) : -1;
  if (size < 0) return ErrnoStatus(errno, "read", file);
  const std::string_view line(text.data(), static_cast<std::size_t>(size));
  return std::string(line.substr(0, line.find('\n')));
}

std::string UuidText(const unsigned char (&uuid)[BTRFS_FSID_SIZE]) {
  std::string text;
  for (std::size_t i = 0; i < sizeof(uuid); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

}  // namespace

std::uint64_t GroupNumberOf(std::string_view name) {
  constexpr std::size_t kDigits = 12;  // 48 bits: the kernel keeps the level in the others
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos || name.size() - dash - 1 < kDigits) return 0;
  const char* const first = name.data() + dash + 1;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(first, first + kDigits, number, 16);
  return error == std::errc() && end == first + kDigits ? number : 0;
}

absl::StatusOr<std::uint64_t> SubvolumeIdOf(const UniqueFd& file, const std::string& path) {
  btrfs_ioctl_ino_lookup_args args = {};
  args.objectid = BTRFS_FIRST_FREE_OBJECTID;
  if (::ioctl(file.get(), BTRFS_IOC_INO_LOOKUP, &args) == 0) return args.treeid;
  return ErrnoStatus(errno, "ask for the subvolume of", path);
}

absl::Status CheckIsTopOfBtrfs(const UniqueFd& directory, const std::string& path) {
  struct statfs filesystem = {};
  struct stat status = {};
  if (::fstatfs(directory.get(), &filesystem) != 0 || ::fstat(directory.get(), &status) != 0) {
    return ErrnoStatus(errno, "look at", path);
  }
  if (filesystem.f_type != BTRFS_SUPER_MAGIC) {
    return FailedPrecondition("{} does not lie on a btrfs: mount the btrfs of the pool there", Quote(path));
  }
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t id, SubvolumeIdOf(directory, path));
  if (status.st_ino == BTRFS_FIRST_FREE_OBJECTID && id == kTopSubvolumeId) return absl::OkStatus();
  return FailedPrecondition(
      "{} is not the top of its btrfs, and a pool needs a btrfs of its own: mount one there, with -o subvolid=5",
      Quote(path));
}

bool KernelHasSimpleQuotas() {
  constexpr const char* kFeatures = "/sys/fs/btrfs/features";
  return ::access((std::string(kFeatures) + "/simple_quota").c_str(), F_OK) == 0;
}

absl::StatusOr<BtrfsQuotas> BtrfsQuotas::Of(const UniqueFd& file, const std::string& path) {
  btrfs_ioctl_fs_info_args info = {};
  if (::ioctl(file.get(), BTRFS_IOC_FS_INFO, &info) != 0) return ErrnoStatus(errno, "ask for the btrfs of", path);
  BtrfsQuotas quotas(fmt::format("/sys/fs/btrfs/{}/qgroups/", UuidText(info.fsid)));
  MOORING_RETURN_IF_ERROR(quotas.Read());
  return quotas;
}

// The directory exists while quotas are on. Before Linux 6.7 the file `mode` does not.
absl::Status BtrfsQuotas::Read() {
  if (::access(place_.c_str(), F_OK) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "look at", place_);
  }
  MOORING_ASSIGN_OR_RETURN(const std::string mode, LineOf(place_ + "mode"));
  MOORING_ASSIGN_OR_RETURN(const std::string inconsistent, LineOf(place_ + "inconsistent"));
  mode_ = mode == "squota" ? Mode::kSimple : Mode::kFull;
  is_inconsistent_ = inconsistent == "1";
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BtrfsQuotas::Group>> BtrfsQuotas::Find(std::uint64_t number) const {
  const std::string group = fmt::format("{}1_{}/", place_, number);
  MOORING_ASSIGN_OR_RETURN(const std::string limit_text, LineOf(group + "max_referenced"));
  MOORING_ASSIGN_OR_RETURN(const std::string used_text, LineOf(group + "referenced"));
  const auto limit = ParseWhole<std::uint64_t>(limit_text), used = ParseWhole<std::uint64_t>(used_text);
  if (!limit || !used) return std::optional<Group>();
  return std::optional<Group>({.limit = *limit, .used = *used});
}

absl::StatusOr<std::uint64_t> BtrfsQuotas::UsedBySubvolume(std::uint64_t id) const {
  MOORING_ASSIGN_OR_RETURN(const std::string text, LineOf(fmt::format("{}0_{}/referenced", place_, id)));
  return ParseWhole<std::uint64_t>(text).value_or(0);
}

}  // namespace mooring
