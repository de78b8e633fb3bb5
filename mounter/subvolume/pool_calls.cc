#include "mounter/subvolume/pool_calls.h"

#include <algorithm>
#include <cstddef>
#include <latch>
#include <system_error>
#include <thread>
#include <utility>

#include "base/exception.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/subvolume/subvolume_pool.h"
#include "mounter/subvolume/tree_search.h"

namespace mooring {
namespace {

using Drafts = std::vector<SubvolumePool::Draft>;

constexpr int kInstantAttempts = 20;  // to make several snapshots in one transaction

absl::StatusOr<std::uint64_t> GroupOf(const std::string& path) {
  const std::uint64_t group = GroupNumberOf(NameOf(path));
  return group != 0 ? absl::StatusOr<std::uint64_t>(group)
                    : InvalidArgument("{} is no name of a volume: it has no 12 hexadecimal digits", Quote(path));
}

absl::StatusOr<Drafts> DraftsOf(const std::vector<NewSubvolume>& wanted) {
  const std::string_view pool = ParentOf(wanted.front().path);
  Drafts drafts;
  for (const NewSubvolume& each : wanted) {
    if (ParentOf(each.path) != pool || (!each.source.empty() && ParentOf(each.source) != pool)) {
      return InvalidArgument("{} and its source do not lie in the same pool {}", Quote(each.path),
                             Quote(std::string(pool)));
    }
    MOORING_ASSIGN_OR_RETURN(const std::uint64_t group, GroupOf(each.path));
    drafts.push_back({.name = std::string(NameOf(each.path)),
                      .source = each.source.empty() ? "" : std::string(NameOf(each.source)),
                      .group = each.bytes == 0 ? 0 : group,
                      .read_only = each.read_only});
  }
  return drafts;
}

// Makes each in a thread of its own, so that all wait for the same transaction: the one after the commit that begins
// here.
absl::Status MakeBeside(const SubvolumePool& pool, const Drafts& drafts) {
  for (const SubvolumePool::Draft& draft : drafts) MOORING_RETURN_IF_ERROR(pool.MakePlaceApart(draft.name));
  std::vector<absl::Status> made(drafts.size());
  std::latch ready(static_cast<std::ptrdiff_t>(drafts.size())), go(1);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    try {
      threads.emplace_back([&, i] {
        ready.count_down();
        go.wait();
        made[i] = pool.MakeApart(drafts[i]);
      });
    } catch (const std::system_error& error) {
      made[i] = ExceptionStatus(error);
      ready.count_down();
    }
  }
  ready.wait();
  made.push_back(pool.BeginCommit());
  go.count_down();
  for (std::thread& thread : threads) thread.join();
  const auto failed = std::find_if(made.begin(), made.end(), [](const absl::Status& status) { return !status.ok(); });
  return failed == made.end() ? absl::OkStatus() : *failed;
}

absl::StatusOr<bool> AreOfOneInstant(const SubvolumePool& pool, const Drafts& drafts) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t first, pool.TransactionOf(drafts.front().name));
  for (const SubvolumePool::Draft& draft : drafts) {
    MOORING_ASSIGN_OR_RETURN(const std::uint64_t other, pool.TransactionOf(draft.name));
    if (other != first) return false;
  }
  return true;
}

absl::Status DeleteAll(const SubvolumePool& pool, const Drafts& drafts) {
  for (const SubvolumePool::Draft& draft : drafts) MOORING_RETURN_IF_ERROR(pool.Delete(draft.name));
  return absl::OkStatus();
}

// A crash leaves no writable snapshot that looks finished.
absl::Status ShowAll(const SubvolumePool& pool, const Drafts& drafts) {
  for (const SubvolumePool::Draft& draft : drafts) MOORING_RETURN_IF_ERROR(pool.Show(draft));
  MOORING_RETURN_IF_ERROR(pool.Commit());
  for (const SubvolumePool::Draft& draft : drafts) MOORING_RETURN_IF_ERROR(pool.RemovePlaceApart(draft.name));
  return absl::OkStatus();
}

// No call of the kernel makes several snapshots at one instant. All of one transaction are. While an
// earlier commit is being written, a transaction stays open for all that arrive: with 8 snapshots, four of five
// attempts succeed.
absl::Status MakeAtOneInstant(const SubvolumePool& pool, const Drafts& drafts) {
  for (int attempt = 0; attempt < kInstantAttempts; ++attempt) {
    MOORING_RETURN_IF_ERROR(MakeBeside(pool, drafts));
    MOORING_ASSIGN_OR_RETURN(const bool at_one_instant, AreOfOneInstant(pool, drafts));
    if (at_one_instant) return ShowAll(pool, drafts);
    MOORING_RETURN_IF_ERROR(DeleteAll(pool, drafts));
  }
  return Aborted("the snapshots could not be made at one instant, because the filesystem is too busy: call again");
}

absl::Status Undo(const SubvolumePool& pool, const Drafts& drafts) {
  MOORING_RETURN_IF_ERROR(DeleteAll(pool, drafts));
  for (const SubvolumePool::Draft& draft : drafts) {
    if (draft.group != 0) MOORING_RETURN_IF_ERROR(pool.RemoveGroup(draft.group));
  }
  return absl::OkStatus();
}

absl::Status MakeLimited(const SubvolumePool& pool, const Drafts& drafts, const std::vector<NewSubvolume>& wanted) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (drafts[i].group == 0) continue;
    MOORING_RETURN_IF_ERROR(pool.MakeGroup(drafts[i].group));
    MOORING_RETURN_IF_ERROR(pool.Limit(drafts[i].group, wanted[i].bytes));
  }
  return drafts.size() == 1 ? pool.Make(drafts.front()) : MakeAtOneInstant(pool, drafts);
}

// Under their lock, so that Undo removes nothing of another call.
absl::Status MakeLocked(const SubvolumePool& pool, const Drafts& drafts, const std::vector<NewSubvolume>& wanted) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    MOORING_ASSIGN_OR_RETURN(const bool exists, pool.Has(drafts[i].name));
    if (!exists) continue;
    if (drafts.size() > 1 || !drafts[i].source.empty()) return AlreadyExists("{} exists", Quote(wanted[i].path));
    if (drafts[i].group == 0) return absl::OkStatus();
    MOORING_RETURN_IF_ERROR(pool.CheckIsMember(drafts[i].name, drafts[i].group));
    return pool.Limit(drafts[i].group, wanted[i].bytes);
  }
  MOORING_RETURN_IF_ERROR(DeleteAll(pool, drafts));  // what a killed call has left
  const absl::Status made = MakeLimited(pool, drafts, wanted);
  if (!made.ok()) log::WarningIfFailed(Undo(pool, drafts), "a subvolume that could not be made is not cleared yet");
  return made;
}

// Without the end of a name that a killed call has left. Empty: it has no such end.
std::string NameOfLeftover(const std::string& name) {
  for (const std::string_view end : {kDeletingEnd, kMakingEnd}) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return "";
}

absl::Status DeleteLocked(const SubvolumePool& pool, const std::string& name, std::uint64_t group) {
  log::WarningIfFailed(pool.PutBackStrangers(name, group).status(), "subvolumes of a task are still counted elsewhere");
  const absl::Status hidden = pool.Hide(name);
  if (!hidden.ok() && !absl::IsResourceExhausted(hidden)) return hidden;
  MOORING_RETURN_IF_ERROR(pool.RemoveGroup(group));  // before: nothing is deleted in a subvolume that is full
  // In a full btrfs there is no room for a name, and only a deletion makes some.
  if (!hidden.ok()) MOORING_RETURN_IF_ERROR(pool.DeleteInPlace(name));
  return pool.Delete(name);
}

// A subvolume that exists beside what is left stays: a later call has made it, or will delete it.
absl::Status DeleteLeftover(const SubvolumePool& pool, const std::string& name, std::uint64_t group) {
  MOORING_ASSIGN_OR_RETURN(const bool exists, pool.Has(name));
  return exists ? pool.FinishDeletion(name) : DeleteLocked(pool, name, group);
}

void PutBackAllStrangers(const SubvolumePool& pool, const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names = pool.Names();
  log::WarningIfFailed(names.status(), "the subvolumes of a pool cannot be listed", {{"pool", path}});
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const std::uint64_t group = GroupNumberOf(name);
    const absl::StatusOr<PutBackCount> found = group == 0 ? PutBackCount() : pool.PutBackStrangers(name, group);
    log::WarningIfFailed(found.status(), "it is unknown which subvolumes count for a volume", {{"volume", name}});
    if (!found.ok() || found->inside + found->outside == 0) continue;
    log::Warning("tasks made subvolumes that counted for the size of a wrong volume, or of none: they do not any more",
                 {{"volume", name},
                  {"of_this_volume", std::to_string(found->inside)},
                  {"of_others", std::to_string(found->outside)}});
  }
}

}  // namespace

absl::StatusOr<std::optional<BtrfsQuotas::Group>> GroupOfSubvolume(const UniqueFd& file, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t id, SubvolumeIdOf(file, path));
  if (id == kTopSubvolumeId) return std::optional<BtrfsQuotas::Group>();
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> groups, RelatedGroups(file, path, id));
  if (groups.empty()) return std::optional<BtrfsQuotas::Group>();
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, BtrfsQuotas::Of(file, path));
  return quotas.Find(groups.front() - QuotaGroupId(0));
}

absl::Status PrepareSubvolumePool(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const SubvolumePool pool, SubvolumePool::Open(path));
  MOORING_RETURN_IF_ERROR(pool.Lock({}).status());  // makes the file, for which a full pool has no room later
  MOORING_ASSIGN_OR_RETURN(const BtrfsQuotas quotas, pool.Quotas());
  if (quotas.mode() == BtrfsQuotas::Mode::kSimple) {
    PutBackAllStrangers(pool, path);
    return pool.RemoveStaleGroups();
  }
  MOORING_ASSIGN_OR_RETURN(const bool is_empty, pool.IsEmpty());
  if (quotas.mode() == BtrfsQuotas::Mode::kOff && is_empty) return pool.EnableQuotas();
  return FailedPrecondition("{} has {}: it is not changed", Quote(path),
                            is_empty ? "full quotas" : "subvolumes, and no simple quotas count them");
}

absl::Status MakeSubvolumesIn(const std::vector<NewSubvolume>& wanted) {
  if (wanted.empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Drafts drafts, DraftsOf(wanted));
  MOORING_ASSIGN_OR_RETURN(const SubvolumePool pool, SubvolumePool::Open(std::string(ParentOf(wanted.front().path))));
  std::vector<std::string> names;
  for (const SubvolumePool::Draft& draft : drafts) names.push_back(draft.name);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, pool.Lock(names));
  MOORING_RETURN_IF_ERROR(MakeLocked(pool, drafts, wanted));
  return pool.Commit();
}

absl::Status SetSubvolumeLimit(const std::string& path, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t group, GroupOf(path));
  MOORING_ASSIGN_OR_RETURN(const SubvolumePool pool, SubvolumePool::Open(std::string(ParentOf(path))));
  MOORING_ASSIGN_OR_RETURN(const bool exists, pool.Has(std::string(NameOf(path))));
  if (!exists) return NotFound("{} does not exist", Quote(path));
  MOORING_RETURN_IF_ERROR(pool.CheckIsMember(std::string(NameOf(path)), group));
  MOORING_RETURN_IF_ERROR(pool.Limit(group, bytes));
  return pool.Commit();
}

absl::Status DeleteSubvolume(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t group, GroupOf(path));
  MOORING_ASSIGN_OR_RETURN(const SubvolumePool pool, SubvolumePool::Open(std::string(ParentOf(path))));
  const std::string name(NameOf(path)), left = NameOfLeftover(name);
  MOORING_ASSIGN_OR_RETURN(const UniqueFd lock, pool.Lock({name}));
  MOORING_RETURN_IF_ERROR(left.empty() ? DeleteLocked(pool, name, group) : DeleteLeftover(pool, left, group));
  return pool.RemoveStaleGroups();
}

}  // namespace mooring
