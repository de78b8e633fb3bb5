#include "mounter/subvolume/inner_subvolumes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "mounter/path/target.h"
#include "mounter/subvolume/quota.h"
#include "mounter/subvolume/tree_search.h"

namespace mooring {
namespace {

constexpr int kMostAttempts = 100;    // while a tenant makes and moves others
constexpr std::size_t kDeepest = 64;  // directories above one another

class Deletion {
 public:
  Deletion(const UniqueFd& top, const UniqueFd& outermost, std::uint64_t id, const std::string& path)
      : top_(top), outermost_(outermost), id_(id), path_(path) {}

  absl::Status Run() {
    for (int attempt = 0;; ++attempt) {
      MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> ids, SubvolumesFrom(top_, path_, id_));
      const auto [error, id] = Destroy(ids);
      if (error == 0) return absl::OkStatus();
      const bool is_in_the_way = error == ENAMETOOLONG || error == EROFS;
      const bool is_curable = is_in_the_way || error == ENOTEMPTY || error == EDQUOT;
      if (!is_curable || attempt == kMostAttempts) {
        return ErrnoStatus(error, fmt::format("delete the subvolume {} in", id), path_);
      }
      if (error == ENOTEMPTY) continue;  // a tenant has made another meanwhile
      for (const std::uint64_t each : ids) MOORING_RETURN_IF_ERROR(LiftLimits(each));
      if (is_in_the_way) MOORING_RETURN_IF_ERROR(MoveUpAll(ids));
    }
  }

 private:
  // By their ids, so that it makes no difference how a tenant names or moves them. Returns errno and the id of the
  // first failure, best of one that has a cause of its own.
  std::pair<int, std::uint64_t> Destroy(const std::vector<std::uint64_t>& ids) const {
    std::pair<int, std::uint64_t> failure = {};
    for (const std::uint64_t id : ids) {
      btrfs_ioctl_vol_args_v2 args = {};
      args.flags = BTRFS_SUBVOL_SPEC_BY_ID;
      args.subvolid = id;
      if (::ioctl(top_.get(), BTRFS_IOC_SNAP_DESTROY_V2, &args) == 0 || errno == ENOENT) continue;
      if (failure.first == 0 || failure.first == ENOTEMPTY) failure = {errno, id};
    }
    return failure;
  }

  // A tenant can give its subvolumes limits, and make them members of other groups. Nothing is deleted in a full one.
  absl::Status LiftLimits(std::uint64_t id) const {
    btrfs_ioctl_qgroup_limit_args none = {};
    none.qgroupid = id;
    none.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER | BTRFS_QGROUP_LIMIT_MAX_EXCL | BTRFS_QGROUP_LIMIT_RSV_RFER |
                     BTRFS_QGROUP_LIMIT_RSV_EXCL;
    none.lim.max_rfer = none.lim.max_excl = none.lim.rsv_rfer = none.lim.rsv_excl = ~std::uint64_t{0};
    const bool lifted = ::ioctl(top_.get(), BTRFS_IOC_QGROUP_LIMIT, &none) == 0;
    if (!lifted && errno != ENOENT && errno != ENOTCONN) return ErrnoStatus(errno, "lift a limit in", path_);
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> groups, RelatedGroups(top_, path_, id));
    for (const std::uint64_t group : groups) {
      btrfs_ioctl_qgroup_assign_args leave = {.assign = 0, .src = id, .dst = group};
      if (::ioctl(top_.get(), BTRFS_IOC_QGROUP_ASSIGN, &leave) < 0 && errno != ENOENT && errno != EINVAL) {
        return ErrnoStatus(errno, "clear a group of quotas in", path_);
      }
    }
    return absl::OkStatus();
  }

  // The kernel finds a subvolume by a path below 4096 bytes, and deletes nothing in a read-only one. The outer ones
  // move first. So each step is short, and all together take time in proportion to what is there.
  absl::Status MoveUpAll(const std::vector<std::uint64_t>& ids) {
    names_.clear();
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      const absl::Status moved = *id == id_ ? MakeWritable(outermost_, path_) : MoveUp(*id);
      if (!moved.ok() && !absl::IsNotFound(moved)) return moved;  // a tenant has moved or deleted it meanwhile
    }
    return absl::OkStatus();
  }

  absl::Status MoveUp(std::uint64_t id) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<TreeEntry> entry, EntryOfSubvolume(top_, path_, id));
    if (!entry) return NotFound(path_);
    MOORING_ASSIGN_OR_RETURN(const UniqueFd directory, OpenDirectoryOf(*entry));
    const UniqueFd subvolume = OpenDirectoryBelow(directory, entry->name);
    if (!subvolume.ok()) return Failed("open a subvolume in");
    MOORING_ASSIGN_OR_RETURN(const std::uint64_t found, SubvolumeIdOf(subvolume, path_));
    if (found != id) return NotFound(path_);
    MOORING_RETURN_IF_ERROR(MakeWritable(subvolume, path_));
    if (entry->subvolume == id_ && entry->directory == BTRFS_FIRST_FREE_OBJECTID) {
      names_[id] = entry->name;
      return absl::OkStatus();
    }
    MOORING_ASSIGN_OR_RETURN(names_[id], Move(directory, entry->name, outermost_));
    return absl::OkStatus();
  }

  // Directories that are too deep move up on the way.
  absl::StatusOr<UniqueFd> OpenDirectoryOf(const TreeEntry& entry) {
    std::vector<std::string> path;  // from the directory up
    for (std::uint64_t inode = entry.directory; inode != BTRFS_FIRST_FREE_OBJECTID;) {
      MOORING_ASSIGN_OR_RETURN(const std::optional<TreeEntry> above,
                               EntryOfDirectory(top_, path_, entry.subvolume, inode));
      if (!above) return NotFound(path_);
      path.push_back(above->name);
      inode = above->directory;
    }
    if (entry.subvolume != id_ && !names_.contains(entry.subvolume)) return NotFound(path_);
    const UniqueFd root = OpenDirectoryBelow(outermost_, entry.subvolume == id_ ? "." : names_[entry.subvolume]);
    if (!root.ok()) return Failed("open a subvolume in");
    UniqueFd at = OpenDirectoryBelow(root, ".");
    for (std::size_t level = 1; at.ok() && !path.empty(); ++level) {
      std::string name = std::move(path.back());
      path.pop_back();
      if (level % kDeepest == 0) {
        MOORING_ASSIGN_OR_RETURN(name, Move(at, name, root));
        at = OpenDirectoryBelow(root, name);
      } else {
        at = OpenDirectoryBelow(at, name);
      }
    }
    if (!at.ok()) return Failed("open a directory in");
    return at;
  }

  // Returns its new name. A tenant may have given one to something else, or have made names of the same hash.
  absl::StatusOr<std::string> Move(const UniqueFd& from, const std::string& name, const UniqueFd& to) {
    for (;;) {
      std::string free = fmt::format("moved-{}", moved_++);
      if (::renameat2(from.get(), name.c_str(), to.get(), free.c_str(), RENAME_NOREPLACE) == 0) return free;
      if (errno != EEXIST && errno != EOVERFLOW) return Failed("move a directory in");
    }
  }

  absl::Status Failed(const char* operation) const { return ErrnoStatus(errno, operation, path_); }

  const UniqueFd& top_;
  const UniqueFd& outermost_;
  const std::uint64_t id_;
  const std::string& path_;
  std::map<std::uint64_t, std::string> names_;  // in the outermost one, of the subvolumes that lie there by now
  std::uint64_t moved_ = 0;
};

}  // namespace

bool IsSubvolume(const UniqueFd& directory) {
  struct stat status = {};
  struct statfs filesystem = {};
  return ::fstat(directory.get(), &status) == 0 && status.st_ino == BTRFS_FIRST_FREE_OBJECTID &&
         ::fstatfs(directory.get(), &filesystem) == 0 && filesystem.f_type == BTRFS_SUPER_MAGIC;
}

absl::Status MakeWritable(const UniqueFd& subvolume, const std::string& path) {
  std::uint64_t flags = 0;
  if (::ioctl(subvolume.get(), BTRFS_IOC_SUBVOL_GETFLAGS, &flags) != 0) {
    return ErrnoStatus(errno, "look at a subvolume in", path);
  }
  if ((flags & BTRFS_SUBVOL_RDONLY) == 0) return absl::OkStatus();
  flags &= ~static_cast<std::uint64_t>(BTRFS_SUBVOL_RDONLY);
  if (::ioctl(subvolume.get(), BTRFS_IOC_SUBVOL_SETFLAGS, &flags) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "make writable a subvolume in", path);
}

absl::Status DeleteWithInner(const UniqueFd& top, const UniqueFd& subvolume, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t id, SubvolumeIdOf(subvolume, path));
  return Deletion(top, subvolume, id, path).Run();
}

}  // namespace mooring
