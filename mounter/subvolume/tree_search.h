// Reads the trees of a mounted btrfs, which needs CAP_SYS_ADMIN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// `path` is for messages.

inline constexpr std::size_t kAll = ~std::size_t{0};

// The subvolume and all below it, each before those that contain it.
absl::StatusOr<std::vector<std::uint64_t>> SubvolumesFrom(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t top);

// The subvolumes that lie directly in this one. A few more than `most` at most.
absl::StatusOr<std::vector<std::uint64_t>> SubvolumesIn(const UniqueFd& filesystem, const std::string& path,
                                                        std::uint64_t id, std::size_t most);

// The ids of all subvolumes in ascending order, also of deleted ones that are not cleared yet.
absl::StatusOr<std::vector<std::uint64_t>> AllSubvolumes(const UniqueFd& filesystem, const std::string& path);

// The directory that has a subvolume, or another directory, as its entry.
struct TreeEntry {
  std::uint64_t subvolume = 0;  // of the directory
  std::uint64_t directory = 0;  // its inode
  std::string name = {};
};

// Empty: it was deleted.
absl::StatusOr<std::optional<TreeEntry>> EntryOfSubvolume(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t id);
absl::StatusOr<std::optional<TreeEntry>> EntryOfDirectory(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t subvolume, std::uint64_t inode);

// The groups of level 0, "0/<id of a subvolume>". Empty: quotas are off.
absl::StatusOr<std::vector<std::uint64_t>> GroupsOfSubvolumes(const UniqueFd& filesystem, const std::string& path);

// The groups that are related to this one: its members, or the groups that it is a member of. A few more than `most` at
// most.
absl::StatusOr<std::vector<std::uint64_t>> RelatedGroups(const UniqueFd& filesystem, const std::string& path,
                                                         std::uint64_t group, std::size_t most = kAll);

}  // namespace mooring
