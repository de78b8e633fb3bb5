#include "mounter/subvolume/strangers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/btrfs.h>
#include <linux/capability.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/deadline.h"
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
  std::uint64_t wanted;  // the number of the only group that it belongs to
};

struct Findings {
  std::vector<Stranger> strangers;
  std::vector<std::uint64_t> deleted;  // members whose data is still in use, or is not cleared yet
  bool are_complete = true;
};

class StrangerSearch {
 public:
  StrangerSearch(const UniqueFd& filesystem, const std::string& path, std::uint64_t volume, std::uint64_t group,
                 std::size_t most)
      : filesystem_(filesystem), path_(path), volume_(volume), group_(group), left_(most) {}

  absl::StatusOr<Findings> Run() {
    MOORING_RETURN_IF_ERROR(LookInside());
    if (found_.are_complete) MOORING_RETURN_IF_ERROR(LookAtMembers());
    return std::move(found_);
  }

 private:
  bool MayGoOn() {
    found_.are_complete = left_ != 0 && !DeadlineScope::HasPassed();
    if (found_.are_complete) --left_;
    return found_.are_complete;
  }

  absl::Status LookInside() {
    std::vector<std::uint64_t> waiting = {volume_};
    while (!waiting.empty() && MayGoOn()) {
      const std::uint64_t id = waiting.back();
      waiting.pop_back();
      inside_.insert(id);
      MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> more, SubvolumesIn(filesystem_, path_, id, left_));
      waiting.insert(waiting.end(), more.begin(), more.end());
      if (id == volume_ || !MayGoOn()) continue;
      MOORING_ASSIGN_OR_RETURN(std::vector<std::uint64_t> groups, RelatedGroups(filesystem_, path_, id));
      if (groups != std::vector{QuotaGroupId(group_)}) found_.strangers.push_back({id, std::move(groups), group_});
    }
    return absl::OkStatus();
  }

  absl::Status LookAtMembers() {
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> members,
                             RelatedGroups(filesystem_, path_, QuotaGroupId(group_), left_));
    for (const std::uint64_t member : members) {
      if (inside_.contains(member)) continue;
      MOORING_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> home, HomeOf(member));
      if (!MayGoOn()) return absl::OkStatus();
      if (!home) found_.deleted.push_back(member);
      if (!home || *home == group_) continue;  // or a task has made it just now
      MOORING_ASSIGN_OR_RETURN(std::vector<std::uint64_t> groups, RelatedGroups(filesystem_, path_, member));
      found_.strangers.push_back({member, std::move(groups), *home});
    }
    return absl::OkStatus();
  }

  // The group of the volume in which the subvolume lies. Empty: it was deleted.
  absl::StatusOr<std::optional<std::uint64_t>> HomeOf(std::uint64_t id) {
    std::string name;
    while (id != kTopSubvolumeId && MayGoOn()) {
      MOORING_ASSIGN_OR_RETURN(std::optional<TreeEntry> entry, EntryOfSubvolume(filesystem_, path_, id));
      if (!entry) return std::optional<std::uint64_t>();
      id = entry->subvolume;
      name = std::move(entry->name);
    }
    return std::optional(GroupNumberOf(name));
  }

  const UniqueFd& filesystem_;
  const std::string& path_;
  const std::uint64_t volume_, group_;
  std::size_t left_;
  std::set<std::uint64_t> inside_;
  Findings found_;
};

absl::StatusOr<PutBackCount> PutBackAll(const UniqueFd& top, const std::string& path, std::uint64_t group,
                                        const std::vector<Stranger>& strangers) {
  PutBackCount count;
  for (const Stranger& stranger : strangers) {
    const std::uint64_t wanted = QuotaGroupId(stranger.wanted);
    for (const std::uint64_t other : stranger.groups) {
      if (other == wanted) continue;
      MOORING_RETURN_IF_ERROR(Assign(top, path, {.assign = 0, .src = stranger.id, .dst = other}));
    }
    MOORING_RETURN_IF_ERROR(Assign(top, path, {.assign = 1, .src = stranger.id, .dst = wanted}));
    ++(stranger.wanted == group ? count.inside : count.outside);
  }
  return count;
}

std::string Sentences(const PutBackCount& count, bool are_all) {
  std::vector<std::string> sentences;
  if (count.inside != 0) {
    sentences.push_back(fmt::format(
        "a task made {} subvolume(s) in it that did not count for its size: they do now, and may have filled the pool",
        count.inside));
  }
  if (count.outside != 0) {
    sentences.push_back(
        fmt::format("tasks with other volumes made {} subvolume(s) that counted for its size: they do not any more",
                    count.outside));
  }
  if (!are_all) {
    sentences.push_back(
        "it has too many subvolumes for one look: the next start of the plugin sees to it that each counts for its "
        "size");
  }
  return fmt::format("{}", fmt::join(sentences, "; "));
}

// A tenant can let what it has deleted count for another volume, as long as its own subvolumes use the data. Nothing
// tells that from what this tenant has deleted itself, so it is no problem before the volume is full.
absl::StatusOr<std::string> DeletedProblem(const BtrfsQuotas& quotas, const BtrfsQuotas::Group& group,
                                           const std::vector<std::uint64_t>& deleted) {
  if (group.limit == 0 || group.used < group.limit - group.limit / 20) return std::string();
  std::uint64_t bytes = 0;
  for (const std::uint64_t id : deleted) {
    MOORING_ASSIGN_OR_RETURN(const std::uint64_t used, quotas.UsedBySubvolume(id));
    bytes += used;
  }
  if (bytes < group.limit / 20) return std::string();
  return fmt::format(
      "deleted subvolumes count for {} MiB of its size, as long as other subvolumes use their data: delete those, also "
      "of other volumes, or expand the volume",
      bytes >> 20U);
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

absl::StatusOr<PutBackCount> PutBackStrangers(const UniqueFd& top, const std::string& path, std::uint64_t volume,
                                              std::uint64_t group) {
  StrangerSearch search(top, path, volume, group, kAll);
  MOORING_ASSIGN_OR_RETURN(const Findings found, search.Run());
  return PutBackAll(top, path, group, found.strangers);
}

absl::StatusOr<std::string> FindSubvolumeProblem(const UniqueFd& root, const std::string& path, std::string_view name,
                                                 const std::function<absl::StatusOr<UniqueFd>()>& open_top,
                                                 std::size_t most_searches) {
  const std::uint64_t group = GroupNumberOf(name);
  if (group == 0 || !sys::HasCapability(CAP_SYS_ADMIN)) return std::string();
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, BtrfsQuotas::Of(root, path));
  MOORING_ASSIGN_OR_RETURN(const std::optional<BtrfsQuotas::Group> limit, quotas.Find(group));
  if (!limit) return std::string();
  const absl::Status is_member = CheckIsMember(root, path, group);
  if (!is_member.ok()) return Message(is_member);
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t volume, SubvolumeIdOf(root, path));
  MOORING_ASSIGN_OR_RETURN(Findings found, StrangerSearch(root, path, volume, group, most_searches).Run());
  if (found.strangers.size() > kMostPutBack) {
    found.strangers.resize(kMostPutBack);
    found.are_complete = false;
  }
  PutBackCount count;
  if (!found.strangers.empty()) {
    MOORING_ASSIGN_OR_RETURN(const UniqueFd top, open_top());
    MOORING_ASSIGN_OR_RETURN(count, PutBackAll(top, path, group, found.strangers));
  }
  const std::string problem = Sentences(count, found.are_complete);
  return problem.empty() ? DeletedProblem(quotas, *limit, found.deleted) : problem;
}

}  // namespace mooring
