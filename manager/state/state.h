// Interface of the manager's state: keys, values and revisions as in etcd, so that etcd can implement it for many
// hosts.
//
// Every commit that changes something makes a revision, higher than the last. In etcd, other changes make revisions,
// too. A key has the revision that created it and the one that changed it last; a key that is deleted and created again
// starts anew.
//
// Safe from several threads. Errors: UNAVAILABLE: the store cannot be reached now. RESOURCE_EXHAUSTED: there is no
// room. INTERNAL: the store is damaged.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring::manager {

// Whether the store may answer otherwise later, to the same call and without a change of settings.
inline bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

struct KeyValue {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t modify_revision = 0;
  std::string problem = {};  // why the value, a secret, cannot be decrypted; then it is empty
};

struct Listing {
  std::vector<KeyValue> values;  // below a prefix: by key
  std::int64_t revision = 0;     // of the state at this read; a watch from the next revision on misses nothing
};

enum class Freshness {
  kNow,
  // As one member of the store has it, perhaps a moment old, which is quicker. For a change that compares what was
  // read. An error that an old value can cause has to be confirmed.
  kMayBeOld,
};

enum class Durability {
  kSynced,   // survives a power cut when the commit returns
  kOrdered,  // survives the death of this process; a power cut that loses it also loses all later commits
};

// The puts and deletes are made together if every compare holds; otherwise nothing is changed.
struct Transaction {
  struct Compare {
    std::string key;
    std::int64_t modify_revision = 0;  // 0: the key must not exist
  };
  // Whether the key is deleted when a lease ends (Lease): no; with that of this host; with the lease that it has
  // already.
  enum class EndsWith { kNoLease, kOwnLease, kItsLease };
  struct Put {
    std::string key;
    std::string value;
    EndsWith ends_with = EndsWith::kNoLease;  // kItsLease: the key must exist, so compare its revision
  };
  std::vector<Compare> compares;
  std::vector<Put> puts;
  std::vector<std::string> deletes;  // the delete of a missing key changes nothing
  Durability durability = Durability::kSynced;
};

struct Change {
  enum class Kind { kPut, kDelete };
  Kind kind = Kind::kPut;
  KeyValue value;  // kDelete: the last value; modify_revision is the revision that deleted it
};

// Gives all changes in the order of their revisions. Changes of secrets (IsSecret in keys.h) have no value; read it
// with Get.
class Watch {
 public:
  virtual ~Watch() = default;

  // Waits for changes, and gives those of one or more whole revisions; empty: there were none by `until`.
  // OUT_OF_RANGE: the next revision is not kept any more; list again. CANCELLED: the state is closing.
  virtual absl::StatusOr<std::vector<Change>> Next(std::chrono::steady_clock::time_point until) = 0;
};

// The right of this host to change the state and to start work for it. Other hosts see that it has ended, and may then
// take over what it did. A store of one host has a lease that never ends, not even with the process.
class Lease {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Lease() = default;

  // Until then the store surely keeps the lease, by the clock of this host, unless it is renewed: then longer. In the
  // past: the lease may have ended, so start no work. The margin for the speed of clocks is subtracted already.
  virtual Clock::time_point ValidUntil() = 0;

  // When it was taken, by the clock of this host; meaningless while Number is 0.
  virtual Clock::time_point TakenAt() { return {}; }

  // The number of this lease, which no other lease of any host has; 0: this host has none now. When a lease has ended,
  // the next one has another number, and leased keys have to be put again.
  virtual std::int64_t Number() = 0;
};

class State {
 public:
  virtual ~State() = default;

  // Lives as long as the state. Each Commit is made under it: UNAVAILABLE if it has ended.
  virtual Lease& lease() = 0;

  // These keys, as far as they exist, and all keys that begin with `prefix`, at one revision and in this order. Without
  // a prefix: only the keys.
  virtual absl::StatusOr<Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                                       Freshness freshness) = 0;

  // FAILED_PRECONDITION: KeyValue::problem.
  absl::StatusOr<std::optional<KeyValue>> Get(const std::string& key);
  absl::StatusOr<Listing> List(const std::string& prefix) { return Read({}, prefix, Freshness::kNow); }

  // Calls `visit` for all keys that begin with `prefix`, at one revision, until it gives an error, which is then the
  // result. Reads in pages where the store is shared, so that it needs little memory. OUT_OF_RANGE: the revision is not
  // kept any more; some keys were visited.
  using Visitor = std::function<absl::Status(KeyValue value)>;
  virtual absl::Status Visit(const std::string& prefix, const Visitor& visit);

  // Gives the new revision once it is as durable as asked. ABORTED: a compare does not hold, and nothing was changed.
  // INVALID_ARGUMENT: a key is changed twice.
  absl::StatusOr<std::int64_t> Commit(const Transaction& transaction) {
    const auto began = std::chrono::steady_clock::now();
    absl::StatusOr<std::int64_t> revision = DoCommit(transaction);
    if (recorder_) recorder_(revision.status().code(), std::chrono::steady_clock::now() - began);
    return revision;
  }

  // `recorder` gets the outcome and the duration of each commit: from many threads, with no lock of the state held.
  // Call this before the first Commit.
  using CommitRecorder = std::function<void(absl::StatusCode code, std::chrono::steady_clock::duration took)>;
  void RecordCommits(CommitRecorder recorder) { recorder_ = std::move(recorder); }

  // Watches keys with `prefix`, from revision `from` on, including it. At least the last 1,000 revisions of this
  // process are kept. A slow reader blocks nobody; it gets OUT_OF_RANGE once it is 100,000 revisions behind.
  virtual absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string& prefix, std::int64_t from) = 0;

  // Ends all watches, now and later, with CANCELLED. Other calls still work, but wait less for a store that is away.
  virtual void EndWatches() = 0;

 private:
  virtual absl::StatusOr<std::int64_t> DoCommit(const Transaction& transaction) = 0;

  CommitRecorder recorder_;
};

}  // namespace mooring::manager
