#include "mounter/subvolume/tree_search.h"

#include <endian.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

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
  bool with_data = false;
  std::size_t most = kAll;  // ends behind the answer with this item
};

struct Item {
  std::uint64_t object, offset;
  std::string data;  // if it is asked for
};

// Adds the items of the type in the kernel's answer. Begins the next search behind the last one; false: there is none.
bool Take(btrfs_ioctl_search_args& args, const Range& range, std::vector<Item>& items) {
  btrfs_ioctl_search_key& key = args.key;
  const char* at = args.buf;
  btrfs_ioctl_search_header item = {};
  for (std::uint32_t i = 0; i < key.nr_items; ++i) {
    std::memcpy(&item, at, sizeof(item));
    at += sizeof(item) + item.len;
    if (item.type != range.type) continue;
    items.push_back({item.objectid, item.offset, range.with_data ? std::string(at - item.len, item.len) : ""});
  }
  key.min_objectid = item.objectid;
  key.min_type = item.type;
  key.min_offset = item.offset + 1;
  if (key.min_offset == 0) ++key.min_type;
  return key.nr_items != 0;
}

// Keys are ordered by object, type and offset, so a range of objects has keys of other types, too.
absl::StatusOr<std::vector<Item>> Search(const UniqueFd& filesystem, const std::string& path, const Range& range) {
  std::vector<Item> items;
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
    if (errno == ENOENT) return std::vector<Item>();  // no such tree
    return ErrnoStatus(errno, "read a tree of the btrfs at", path);
  } while (Take(args, range, items) && items.size() < range.most);
  return items;
}

absl::StatusOr<std::vector<std::uint64_t>> Offsets(const UniqueFd& filesystem, const std::string& path,
                                                   const Range& range) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Item> items, Search(filesystem, path, range));
  std::vector<std::uint64_t> offsets;
  for (const Item& item : items) offsets.push_back(item.offset);
  return offsets;
}

// A reference has a struct, whose member `name_len` is the last one, and then the name.
template <typename Reference>
std::optional<std::pair<Reference, std::string>> Parse(const std::string& data) {
  Reference reference = {};
  if (data.size() < sizeof(reference)) return std::nullopt;
  std::memcpy(&reference, data.data(), sizeof(reference));
  return std::pair(reference, data.substr(sizeof(reference), le16toh(reference.name_len)));
}

}  // namespace

absl::StatusOr<std::vector<std::uint64_t>> SubvolumesFrom(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t top) {
  std::vector<std::uint64_t> found = {top};
  for (std::size_t i = 0; i < found.size(); ++i) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> inside, SubvolumesIn(filesystem, path, found[i], kAll));
    found.insert(found.end(), inside.begin(), inside.end());
  }
  std::reverse(found.begin(), found.end());
  return found;
}

absl::StatusOr<std::vector<std::uint64_t>> SubvolumesIn(const UniqueFd& filesystem, const std::string& path,
                                                        std::uint64_t id, std::size_t most) {
  return Offsets(filesystem, path, {BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_REF_KEY, id, id, 0, kLast, false, most});
}

absl::StatusOr<std::vector<std::uint64_t>> AllSubvolumes(const UniqueFd& filesystem, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(
      const std::vector<Item> items,
      Search(filesystem, path,
             {BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_ITEM_KEY, BTRFS_FIRST_FREE_OBJECTID, BTRFS_LAST_FREE_OBJECTID}));
  std::vector<std::uint64_t> ids;
  for (const Item& item : items) ids.push_back(item.object);
  return ids;
}

absl::StatusOr<std::optional<TreeEntry>> EntryOfSubvolume(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t id) {
  MOORING_ASSIGN_OR_RETURN(
      const std::vector<Item> items,
      Search(filesystem, path, {BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_BACKREF_KEY, id, id, 0, kLast, true}));
  const auto found = items.empty() ? std::nullopt : Parse<btrfs_root_ref>(items.front().data);
  if (!found) return std::optional<TreeEntry>();
  return std::optional<TreeEntry>({items.front().offset, le64toh(found->first.dirid), found->second});
}

absl::StatusOr<std::optional<TreeEntry>> EntryOfDirectory(const UniqueFd& filesystem, const std::string& path,
                                                          std::uint64_t subvolume, std::uint64_t inode) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Item> items,
                           Search(filesystem, path, {subvolume, BTRFS_INODE_REF_KEY, inode, inode, 0, kLast, true}));
  const auto found = items.empty() ? std::nullopt : Parse<btrfs_inode_ref>(items.front().data);
  if (!found) return std::optional<TreeEntry>();
  return std::optional<TreeEntry>({subvolume, items.front().offset, found->second});
}

absl::StatusOr<std::vector<std::uint64_t>> GroupsOfSubvolumes(const UniqueFd& filesystem, const std::string& path) {
  return Offsets(filesystem, path,
                 {BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_INFO_KEY, 0, 0, BTRFS_FIRST_FREE_OBJECTID, kFirstLevel1 - 1});
}

absl::StatusOr<std::vector<std::uint64_t>> RelatedGroups(const UniqueFd& filesystem, const std::string& path,
                                                         std::uint64_t group, std::size_t most) {
  return Offsets(filesystem, path,
                 {BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_RELATION_KEY, group, group, 0, kLast, false, most});
}

}  // namespace mooring
