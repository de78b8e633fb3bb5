#include "manager/migrate/migration.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/migrate/moved_records.h"
#include "manager/records/names.h"
#include "manager/state/host_notes.h"
#include "manager/state/keys.h"
#include "manager/state/records_store.h"
#include "manager/volumes/volume_records.h"

namespace mooring::manager {
namespace {

// Each transaction of the copy also puts the last volume that is complete, at MoveProgressKey. The move may be
// interrupted, and other hosts may change what was copied. A repetition leaves those records as they are.
class ToShared {
 public:
  explicit ToShared(const MoveEnds& ends) : local_(ends.local), shared_(ends.shared), host_(ends.host), ends_(ends) {}

  absl::StatusOr<MovedCounts> Move() {
    MOORING_ASSIGN_OR_RETURN(cluster_, ClusterOf(shared_));
    MOORING_ASSIGN_OR_RETURN(const bool repeated, ReadProgress());
    MOORING_ASSIGN_OR_RETURN(originals_, ReadMovedRecords(local_));
    MovedRecords left = originals_;
    left.erase(left.begin(), left.upper_bound(complete_));
    MOORING_RETURN_IF_ERROR(Check(left));
    if (!repeated) MOORING_RETURN_IF_ERROR(Begin());
    MOORING_RETURN_IF_ERROR(Copy(std::move(left)));
    MOORING_RETURN_IF_ERROR(Compare());
    MOORING_RETURN_IF_ERROR(DeleteOriginals());
    // If this fails, the next move removes the key.
    (void)shared_.Commit({.compares = {}, .puts = {}, .deletes = {MoveProgressKey(host_)}});
    return CountsOf(originals_);
  }

 private:
  // Whether this move was begun before.
  absl::StatusOr<bool> ReadProgress() {
    MOORING_ASSIGN_OR_RETURN(const std::optional<MoveNote> note, ReadMoveNote(local_, host_));
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> progress, shared_.Get(MoveProgressKey(host_)));
    progress_revision_ = progress ? progress->modify_revision : 0;
    complete_.clear();
    if (!note) return false;
    if (note->to == MoveNote::To::kLocal) {
      return FailedPrecondition(
          "a move of the volumes and claims back to SQLite was interrupted: complete it first, with 'mooring manager "
          "migrate --to sqlite'");
    }
    if (note->cluster != cluster_) {
      return FailedPrecondition(
          "a move to the shared state {} was interrupted, and this is the shared state {}: complete the first move",
          note->cluster, cluster_);
    }
    if (progress) complete_ = progress->value;
    return true;
  }

  absl::Status Check(const MovedRecords& left) {
    MOORING_ASSIGN_OR_RETURN(const MovedRecords there, ReadMovedRecords(shared_));
    there_ = ByKey(there);
    MOORING_RETURN_IF_ERROR(RefuseConflicts(left, there_, "the shared state"));
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> last, shared_.Get(NewVolumesKey()));
    new_volumes_revision_ = last ? last->modify_revision : 0;
    return RefuseTwins();
  }

  // The claims on two records of the same volume would not exclude each other. It is read after NewVolumesKey, which
  // each copy compares.
  absl::Status RefuseTwins() {
    RecordsStore local(local_), shared(shared_);
    MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> ours, local.ListVolumes());
    MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> theirs, shared.ListVolumes());
    MOORING_RETURN_IF_ERROR(local.CheckReadable(VolumesPrefix()));
    MOORING_RETURN_IF_ERROR(shared.CheckReadable(VolumesPrefix()));
    std::vector<std::string> twins;
    for (const Volume& volume : ours) {
      for (const Volume& other : theirs) {
        if (!AreSameVolume(volume, other)) continue;
        twins.push_back("volume " + ToString(volume.key) + " is there as " + ToString(other.key));
      }
    }
    return RefuseAll("the shared state has the same volumes of plugins under other names", twins,
                     "deregister one of the two, and repeat the command");
  }

  absl::Status Begin() {
    if (progress_revision_ != 0) {  // of an earlier move
      MOORING_RETURN_IF_ERROR(
          shared_.Commit({.compares = {}, .puts = {}, .deletes = {MoveProgressKey(host_)}}).status());
      progress_revision_ = 0;
    }
    Transaction begin;
    begin.puts = {Noted(host_, {.to = MoveNote::To::kShared, .cluster = cluster_})};
    return local_.Commit(begin).status();
  }

  absl::Status Copy(MovedRecords left) {
    for (auto& [volume, values] : left) {
      std::erase_if(values, [&](const KeyValue& value) { return there_.contains(value.key); });
    }
    for (const Batch& batch : InBatches(left)) MOORING_RETURN_IF_ERROR(CopyBatch(batch));
    return absl::OkStatus();
  }

  absl::Status CopyBatch(const Batch& batch) {
    Transaction copy;
    copy.compares = {{NewVolumesKey(), new_volumes_revision_}, {MoveProgressKey(host_), progress_revision_}};
    copy.puts = {{.key = NewVolumesKey(), .value = ""}, {.key = MoveProgressKey(host_), .value = batch.complete}};
    for (const KeyValue& value : batch.values) {
      copy.compares.push_back({value.key, 0});
      copy.puts.push_back({.key = value.key, .value = value.value});
    }
    MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, shared_.Commit(copy));
    new_volumes_revision_ = progress_revision_ = revision;
    return absl::OkStatus();
  }

  absl::Status Compare() {
    MOORING_ASSIGN_OR_RETURN(const MovedRecords copies, ReadMovedRecords(shared_));
    copies_ = ByKey(copies);
    for (const auto& [volume, values] : originals_) {
      const bool of_this_try = volume > complete_;
      for (const KeyValue& original : values) MOORING_RETURN_IF_ERROR(CompareOne(original, of_this_try));
    }
    return absl::OkStatus();
  }

  // Other hosts may already have changed or deleted what an earlier try has copied.
  absl::Status CompareOne(const KeyValue& original, bool of_this_try) const {
    const auto copy = copies_.find(original.key);
    if (copy == copies_.end()) {
      if (!of_this_try) return absl::OkStatus();
      return Internal("{} is missing in the shared state: repeat the command", Describe(original));
    }
    const bool was_changed = copy->second.modify_revision != copy->second.create_revision;
    if (copy->second.value == original.value || was_changed) return absl::OkStatus();
    return Internal("the copy of {} in the shared state differs: repeat the command", Describe(original));
  }

  absl::Status DeleteOriginals() {
    Transaction end;
    for (const auto& [key, original] : ByKey(originals_)) end.deletes.push_back(key);
    end.deletes.push_back(MoveNoteKey(host_));
    MOORING_ASSIGN_OR_RETURN(end.puts, DockerPuts(ends_, originals_, [&](const std::string& key) {
                               const auto copy = copies_.find(key);
                               return copy == copies_.end() ? 0 : copy->second.create_revision;
                             }));
    end.puts.push_back({.key = JoinedClusterKey(host_), .value = cluster_});
    return local_.Commit(end).status();
  }

  State& local_;
  State& shared_;
  const std::string host_;
  const MoveEnds ends_;
  std::string cluster_;
  std::string complete_;  // all records of the volumes up to this one are copied
  std::int64_t progress_revision_ = 0, new_volumes_revision_ = 0;
  MovedRecords originals_;
  std::map<std::string, KeyValue> there_;   // in the shared state, before the copy
  std::map<std::string, KeyValue> copies_;  // in the shared state, after it
};

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

absl::StatusOr<MovedCounts> MoveToShared(const MoveEnds& ends) {
  return Repeat([&] { return ToShared(ends).Move(); });
}

absl::StatusOr<MovedCounts> MoveToLocal(const MoveEnds& ends) {
  return Repeat([&] { return ToLocal(ends).Move(); });
}

}  // namespace mooring::manager
