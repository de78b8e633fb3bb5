// Reads and changes stored claims. A change that loses a race against another writer is repeated on the new record.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/events.h"
#include "manager/records/records.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

using ClaimRecord = Claim;  // for classes with a method named Claim

// The claims that count for the mode in use of their volume: all that are not lost.
int CountUsing(const std::vector<ClaimRecord>& claims);

// Whether both are the same record, and not a newer claim of the same allocation, perhaps on another host.
bool IsSameRecord(const ClaimRecord& a, const ClaimRecord& b);

class ClaimRecords {
 public:
  // Both outlive it.
  ClaimRecords(RecordsStore& store, Events& events) : store_(store), events_(events) {}

  RecordsStore& store() { return store_; }

  absl::StatusOr<std::optional<ClaimRecord>> Find(const VolumeKey& volume, ClaimMode mode,
                                                  const std::string& allocation);

  // Changes the stored record of `claim` and returns it as it is then; nullopt: it is gone. `change` returns false to
  // leave the record as it is, and may be called several times.
  absl::StatusOr<std::optional<ClaimRecord>> Change(const ClaimRecord& claim,
                                                    const std::function<bool(ClaimRecord&)>& change,
                                                    Durability durability = Durability::kSynced);

  void Report(const ClaimRecord& claim, bool bad, const std::string& text);  // as an event

 private:
  RecordsStore& store_;
  Events& events_;
};

}  // namespace mooring::manager
