#include "mounter/subvolume/tree_search.h"

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/status.h"

namespace mooring {
namespace {

constexpr std::uint64_t kLast = ~std::uint64_t{0};
constexpr std::uint32_t kMostItems = 4096;  // fewer fit into the answer
constexpr std::uint64_t kFirstLevel1 = std::uint64_t{1} << 48U;

struct Range {
  std::uint64_t tree;
  std::uint32_t type;
  std::uint64_t first_object, last_object;
  std::uint64_t first_offset = 0, last_offset = kLast;
};

struct Key {
  std::uint64_t object, offset;
};

// Adds the keys of the type in the kernel's answer. Begins the next search behind the last one; false: there is none.
bool Take(btrfs_ioctl_search_args& args, std::uint32_t type, std::vector<Key>& keys) {
  btrfs_ioctl_search_key& key = args.key;
  const char* at = args.buf;
  btrfs_ioctl_search_header item = {};
  for (std::uint32_t i = 0; i < key.nr_items; ++i) {
    std::memcpy(&item, at, sizeof(item));
    at += sizeof(item) + item.len;
    if (item.type == type) keys.push_back({item.objectid, item.offset});
  }
  key.min_objectid = item.objectid;
  key.min_type = item.type;
  key.min_offset = item.offset + 1;
  if (key.min_offset == 0) ++key.min_type;
  return key.nr_items != 0;
}

// Keys are ordered by object, type and offset, so a range of objects has keys of other types, too.
absl::StatusOr<std::vector<Key>> Search(const UniqueFd& filesystem, const std::string& path, const Range& range) {
  std::vector<Key> keys;
  btrfs_ioctl_search_args args = {};
  btrfs_ioctl_search_key& key = args.key;
  key.tree_id = range.tree;
  key.min_objectid = range.first_object;
  key.max_objectid = range.last_object;
  key.min_type = key.max_type = range.type;
  key.min_offset = range.first_offset;
  key.max_offset = range.last_offset;
  key.max_transid = kLast;
  do {
    key.nr_items = kMostItems;
    if (::ioctl(filesystem.get(), BTRFS_IOC_TREE_SEARCH, &args) == 0) continue;
    if (errno == ENOENT) return std::vector<Key>();  // no tree of quotas
    return ErrnoStatus(errno, "read a tree of the btrfs at", path);
  } while (Take(args, range.type, keys));
  return keys;
}

absl::StatusOr<std::vector<std::uint64_t>> Offsets(const UniqueFd& filesystem, const std::string& path,
                                                   const Range& range) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Key> keys, Search(filesystem, path, range));
  std::vector<std::uint64_t> offsets;
  for (const Key& key : keys) offsets.push_back(key.offset);
  return offsets;
}

}  // namespace

absl::StatusOr<std::vector<std::uint64_t>> SubvolumesFrom(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t top) {
  std::vector<std::uint64_t> found = {top};
  for (std::size_t i = 0; i < found.size(); ++i) {
    MOORING_ASSIGN_OR_RETURN(
        const std::vector<std::uint64_t> inside,
        Offsets(filesystem, path, {BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_REF_KEY, found[i], found[i]}));
    found.insert(found.end(), inside.begin(), inside.end());
  }
  std::reverse(found.begin(), found.end());
  return found;
}

absl::StatusOr<std::vector<std::uint64_t>> AllSubvolumes(const UniqueFd& filesystem, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Key> keys, Search(filesystem, path,
                                                               {BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_ITEM_KEY,
                                                                BTRFS_FIRST_FREE_OBJECTID, BTRFS_LAST_FREE_OBJECTID}));
  std::vector<std::uint64_t> ids;
  for (const Key& key : keys) ids.push_back(key.object);
  return ids;
}

absl::StatusOr<std::vector<std::uint64_t>> GroupsOfSubvolumes(const UniqueFd& filesystem, const std::string& path) {
  return Offsets(filesystem, path,
                 {BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_INFO_KEY, 0, 0, BTRFS_FIRST_FREE_OBJECTID, kFirstLevel1 - 1});
}

absl::StatusOr<std::vector<std::uint64_t>> RelatedGroups(const UniqueFd& filesystem, const std::string& path,
                                                         std::uint64_t group) {
  return Offsets(filesystem, path, {BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_RELATION_KEY, group, group});
}

}  // namespace mooring
