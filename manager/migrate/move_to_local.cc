#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/migrate/migration.h"
#include "manager/migrate/move_checks.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/state/move_note.h"
#include "manager/state/records_store.h"

namespace mooring::manager {
namespace {

class ToLocal {
 public:
  explicit ToLocal(const MoveEnds& ends) : local_(ends.local), shared_(ends.shared), host_(ends.host), ends_(ends) {}

  absl::StatusOr<MovedCounts> Move() {
    MOORING_ASSIGN_OR_RETURN(cluster_, ClusterOf(shared_));
    MOORING_ASSIGN_OR_RETURN(const bool repeated, WasBegun());
    MOORING_RETURN_IF_ERROR(RefuseOtherHosts());
    MOORING_ASSIGN_OR_RETURN(originals_, ReadMovedRecords(shared_));
    MOORING_ASSIGN_OR_RETURN(const MovedRecords there, ReadMovedRecords(local_));
    there_ = ByKey(there);
    if (!repeated) MOORING_RETURN_IF_ERROR(RefuseConflicts(originals_, there_, "state.db"));
    MOORING_RETURN_IF_ERROR(Copy());
    MOORING_ASSIGN_OR_RETURN(const MovedRecords copies, ReadMovedRecords(local_));
    MOORING_RETURN_IF_ERROR(Compare(ByKey(copies)));
    for (const Batch& batch : InBatches(originals_)) MOORING_RETURN_IF_ERROR(DeleteBatch(batch));
    MOORING_RETURN_IF_ERROR(Leave());
    Transaction end;
    end.deletes = {JoinedClusterKey(host_), MoveNoteKey(host_)};
    MOORING_RETURN_IF_ERROR(local_.Commit(end).status());
    return CountsOf(copies);
  }

 private:
  // Whether this move was begun before. Then the local state has copies, which may be older than the originals.
  absl::StatusOr<bool> WasBegun() {
    MOORING_ASSIGN_OR_RETURN(const std::optional<MoveNote> note, ReadMoveNote(local_, host_));
    if (!note) return false;
    if (note->to == MoveNote::To::kLocal) return true;
    return FailedPrecondition(
        "a move of the volumes and claims to the shared state {} was interrupted: complete it first, with 'mooring "
        "manager migrate --to etcd://...'",
        note->cluster);
  }

  absl::Status RefuseOtherHosts() {
    MOORING_ASSIGN_OR_RETURN(const Listing live, shared_.List(LivePrefix()));
    RecordsStore store(shared_);
    MOORING_ASSIGN_OR_RETURN(const std::vector<Host> hosts, store.ListHosts());
    MOORING_ASSIGN_OR_RETURN(const std::vector<Claim> claims, store.ListClaims());
    std::vector<std::string> in_use = store.WhyUnreadable();
    for (const KeyValue& value : live.values) {
      if (value.key == LiveKey(host_)) continue;
      in_use.push_back(fmt::format("host {} is alive", Quote(value.key.substr(LivePrefix().size()))));
    }
    for (const Claim& claim : claims) {
      if (claim.node == host_ || claim.lost) continue;
      in_use.push_back(fmt::format("host {} holds a claim of volume {} for {}", Quote(claim.node),
                                   ToString(claim.volume), Quote(claim.allocation)));
    }
    others_.clear();
    for (const Host& host : hosts) {
      if (host.name != host_) others_.push_back(LiveKey(host.name));
    }
    return RefuseAll("other hosts need the shared state", in_use,
                     "stop their managers, and free their claims with 'mooring release' or, if a host is turned off, "
                     "'mooring host lost'");
  }

  // In one transaction, so a crash leaves all copies with the note, or nothing.
  absl::Status Copy() {
    Transaction copy;
    MOORING_ASSIGN_OR_RETURN(const Listing now, local_.List(MoveNoteKey(host_)));
    const std::int64_t revision = now.revision + 1;  // nobody else writes
    MOORING_ASSIGN_OR_RETURN(copy.puts, DockerPuts(ends_, originals_, [&](const std::string& key) {
                               const auto found = there_.find(key);
                               return found == there_.end() ? revision : found->second.create_revision;
                             }));
    for (const auto& [key, original] : ByKey(originals_)) copy.puts.push_back({.key = key, .value = original.value});
    copy.puts.push_back(Noted(host_, {.to = MoveNote::To::kLocal, .cluster = cluster_}));
    MOORING_ASSIGN_OR_RETURN(const std::int64_t made, local_.Commit(copy));
    if (made != revision) return Internal("state.db was changed during the move: is a manager running?");
    return absl::OkStatus();
  }

  absl::Status Compare(const std::map<std::string, KeyValue>& copies) const {
    for (const auto& [key, original] : ByKey(originals_)) {
      const auto copy = copies.find(key);
      if (copy != copies.end() && copy->second.value == original.value) continue;
      return Internal("the copy of {} in state.db differs: repeat the command", Describe(original));
    }
    return absl::OkStatus();
  }

  // ABORTED: a record was changed, or a host has come back.
  absl::Status DeleteBatch(const Batch& batch) {
    Transaction gone;
    for (const KeyValue& value : batch.values) {
      gone.compares.push_back({value.key, value.modify_revision});
      gone.deletes.push_back(value.key);
    }
    const std::size_t others = std::min(others_.size(), kMostHostsCompared);
    for (std::size_t i = 0; i < others; ++i) gone.compares.push_back({others_[i], 0});
    return shared_.Commit(gone).status();
  }

  // Otherwise other hosts would see this host as unreachable for ever.
  absl::Status Leave() {
    Transaction leave;
    leave.deletes = {HostStateKey(host_)};
    return shared_.Commit(leave).status();
  }

  static constexpr std::size_t kMostHostsCompared = 20;

  State& local_;
  State& shared_;
  const std::string host_;
  const MoveEnds ends_;
  std::string cluster_;
  std::vector<std::string> others_;  // the keys that other hosts have while they are alive
  MovedRecords originals_;
  std::map<std::string, KeyValue> there_;  // in the local state, before the copy
};

}  // namespace

absl::StatusOr<MovedCounts> MoveToLocal(const MoveEnds& ends) {
  return Repeat([&] { return ToLocal(ends).Move(); });
}

}  // namespace mooring::manager
