// The quotas of a mounted btrfs, as sysfs shows them. Reading them needs no privilege.
//
// A volume is a subvolume in a group of level 1, "1/N", whose limit is the size of the volume. Subvolumes and snapshots
// that a tenant makes inside are members of that group as well. That is so with simple quotas only, which came with
// Linux 6.7. A hostile tenant can name other groups, so the limit is against accidents (mounter/subvolume/strangers.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// N of a subvolume with this name: the first 12 of the random digits behind its first '-'. So the group can be made
// before the subvolume, and an interrupted call leaves no group that nobody finds. 0: the name has no such digits.
std::uint64_t GroupNumberOf(std::string_view name);

// "1/N" as the kernel's calls have it.
constexpr std::uint64_t QuotaGroupId(std::uint64_t number) { return (std::uint64_t{1} << 48U) | number; }

// The id of the subvolume that contains this open file.
absl::StatusOr<std::uint64_t> SubvolumeIdOf(const UniqueFd& file, const std::string& path);

inline constexpr std::uint64_t kTopSubvolumeId = 5;  // of the whole filesystem

// FAILED_PRECONDITION: the open directory is not the top of a btrfs.
absl::Status CheckIsTopOfBtrfs(const UniqueFd& directory, const std::string& path);

// Whether this kernel has simple quotas.
bool KernelHasSimpleQuotas();

class BtrfsQuotas {
 public:
  enum class Mode { kOff, kFull, kSimple };

  struct Group {
    std::uint64_t limit = 0;  // bytes; 0: none
    std::uint64_t used = 0;   // bytes
  };

  // As they are now. `file` lies on a btrfs. `path` is for messages.
  static absl::StatusOr<BtrfsQuotas> Of(const UniqueFd& file, const std::string& path);

  Mode mode() const { return mode_; }
  bool is_inconsistent() const { return is_inconsistent_; }
  absl::StatusOr<std::optional<Group>> Find(std::uint64_t number) const;  // 1/N; empty: it does not exist
  absl::StatusOr<std::uint64_t> UsedBySubvolume(std::uint64_t id) const;  // bytes; 0: it has no group

 private:
  explicit BtrfsQuotas(std::string place) : place_(std::move(place)) {}
  absl::Status Read();

  std::string place_;  // "/sys/fs/btrfs/<UUID>/qgroups/"
  Mode mode_ = Mode::kOff;
  bool is_inconsistent_ = false;
};

}  // namespace mooring
