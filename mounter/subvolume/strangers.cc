#include "mounter/subvolume/strangers.h"

#include <fmt/format.h>
#include <linux/btrfs.h>
#include <linux/capability.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/subvolume/quota.h"
#include "mounter/subvolume/tree_search.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

// OK if the subvolume is gone meanwhile.
absl::Status Assign(const UniqueFd& filesystem, const std::string& path, btrfs_ioctl_qgroup_assign_args change) {
  if (::ioctl(filesystem.get(), BTRFS_IOC_QGROUP_ASSIGN, &change) >= 0) return absl::OkStatus();
  if (errno == EINVAL || errno == ENOENT || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("count the subvolume {} for its volume", change.src), path);
}

struct Stranger {
  std::uint64_t id;
  std::vector<std::uint64_t> groups;
};

absl::StatusOr<std::vector<Stranger>> FindStrangers(const UniqueFd& filesystem, const std::string& path,
                                                    std::uint64_t volume, std::uint64_t group) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> ids, SubvolumesFrom(filesystem, path, volume));
  std::vector<Stranger> found;
  for (const std::uint64_t id : ids) {
    MOORING_ASSIGN_OR_RETURN(std::vector<std::uint64_t> groups, RelatedGroups(filesystem, path, id));
    const bool is_inside = groups.size() == 1 && groups.front() == QuotaGroupId(group);
    if (id != volume && !is_inside) found.push_back({id, std::move(groups)});
  }
  return found;
}

}  // namespace

absl::Status CheckIsMember(const UniqueFd& subvolume, const std::string& path, std::uint64_t group) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t id, SubvolumeIdOf(subvolume, path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> groups, RelatedGroups(subvolume, path, id));
  if (std::find(groups.begin(), groups.end(), QuotaGroupId(group)) != groups.end()) return absl::OkStatus();
  return FailedPrecondition(
      "{} is no member of its group of quotas 1/{}, so it is not held to its size: clone it, and use the clone",
      Quote(path), group);
}

absl::StatusOr<std::size_t> PutBackStrangers(const UniqueFd& top, const std::string& path, std::uint64_t volume,
                                             std::uint64_t group) {
  const std::uint64_t wanted = QuotaGroupId(group);
  MOORING_ASSIGN_OR_RETURN(const std::vector<Stranger> strangers, FindStrangers(top, path, volume, group));
  for (const Stranger& stranger : strangers) {
    for (const std::uint64_t other : stranger.groups) {
      if (other == wanted) continue;
      MOORING_RETURN_IF_ERROR(Assign(top, path, {.assign = 0, .src = stranger.id, .dst = other}));
    }
    MOORING_RETURN_IF_ERROR(Assign(top, path, {.assign = 1, .src = stranger.id, .dst = wanted}));
  }
  return strangers.size();
}

absl::StatusOr<std::string> FindSubvolumeProblem(const UniqueFd& root, const std::string& path, std::string_view name,
                                                 const std::function<absl::StatusOr<UniqueFd>()>& open_top) {
  const std::uint64_t group = GroupNumberOf(name);
  if (group == 0 || !sys::HasCapability(CAP_SYS_ADMIN)) return std::string();
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, BtrfsQuotas::Of(root, path));
  MOORING_ASSIGN_OR_RETURN(const std::optional<BtrfsQuotas::Group> limit, quotas.Find(group));
  if (!limit) return std::string();
  const absl::Status is_member = CheckIsMember(root, path, group);
  if (!is_member.ok()) return Message(is_member);
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t volume, SubvolumeIdOf(root, path));
  MOORING_ASSIGN_OR_RETURN(const std::vector<Stranger> strangers, FindStrangers(root, path, volume, group));
  if (strangers.empty()) return std::string();
  MOORING_ASSIGN_OR_RETURN(const UniqueFd top, open_top());
  MOORING_ASSIGN_OR_RETURN(const std::size_t found, PutBackStrangers(top, path, volume, group));
  return fmt::format(
      "a task made {} subvolume(s) in it that did not count for its size: they do now, and may have filled the pool",
      found);
}

}  // namespace mooring
