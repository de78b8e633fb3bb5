// The manager's state: keys, values and revisions, as etcd has them, so that it can stand behind this for many hosts.
// Nothing above knows which does. (l)
//
// Every commit that changes something is a revision, one higher than the one before. A key remembers the revision that
// made it and the one that changed it last; deleted and made again it starts anew.
//
// Safe from several threads. Errors: UNAVAILABLE: the store cannot be reached now; RESOURCE_EXHAUSTED: no room;
// INTERNAL: the store is damaged.
#ifndef MOORING_MANAGER_STATE_STATE_H_
#define MOORING_MANAGER_STATE_STATE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring::manager {

struct KeyValue {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t modify_revision = 0;
};

struct Listing {
  std::vector<KeyValue> values;  // by key
  std::int64_t revision = 0;     // of the whole state, at this reading: a watch from the next on misses nothing
};

enum class Durability {
  kSynced,   // survives a power cut when the commit returns
  kOrdered,  // survives the death of this process; a power cut loses it only together with all that was committed after
             // it. (A store of many hosts syncs everything.)
};

// All of it or nothing: the puts and deletes are made if every compare holds.
struct Transaction {
  struct Compare {
    std::string key;
    std::int64_t modify_revision = 0;  // 0: there is no such key
  };
  struct Put {
    std::string key;
    std::string value;
  };
  std::vector<Compare> compares;
  std::vector<Put> puts;
  std::vector<std::string> deletes;  // of a key that is not there: nothing
  Durability durability = Durability::kSynced;
};

struct Change {
  enum class Kind { kPut, kDelete };
  Kind kind = Kind::kPut;
  KeyValue value;  // kDelete: as it was last, with the revision that deleted it as modify_revision
};

// Changes in the order of their revisions, none left out. Of secrets (SecretsPrefix) a watch has key and revision, and
// no value: who may know it gets it. Ended by its destruction.
class Watch {
 public:
  virtual ~Watch() = default;

  // The changes of one or more revisions, whole revisions at a time; waits for some until `until`, then empty.
  // OUT_OF_RANGE: the revision it was to begin with is forgotten already; list again. CANCELLED: the state is closing.
  virtual absl::StatusOr<std::vector<Change>> Next(std::chrono::steady_clock::time_point until) = 0;
};

class State {
 public:
  virtual ~State() = default;

  virtual absl::StatusOr<std::optional<KeyValue>> Get(const std::string& key) = 0;

  // All keys that begin with `prefix`.
  virtual absl::StatusOr<Listing> List(const std::string& prefix) = 0;

  // The new revision, as durable as it asks for when this returns. ABORTED: a compare did not hold,
  // nothing was changed. INVALID_ARGUMENT: a key is to be changed twice.
  virtual absl::StatusOr<std::int64_t> Commit(const Transaction& transaction) = 0;

  // Changes of keys with `prefix` from revision `from` on (that one too). At least the last 1,000 revisions of this
  // process are kept. A watcher that reads slowly blocks nobody; it is OUT_OF_RANGE where it is 100,000 behind.
  virtual absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string& prefix, std::int64_t from) = 0;

  // Ends all watches, now and later, for those who are to stop first: CANCELLED. All else goes on.
  virtual void EndWatches() = 0;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_STATE_H_
