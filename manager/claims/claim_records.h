// The records that Claims writes: claims, and the marks of exhausted volumes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/events.h"
#include "manager/records/records.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

// The number of claims that count for the mode in use of their volume: all that are not lost. A claim that is about to
// be deleted is among them.
int CountUsing(const std::vector<Claim>& claims);

// Whether both are the same record, and not a newer claim of the same allocation, perhaps on another host.
bool IsSameRecord(const Claim& a, const Claim& b);

bool IsBeforeNodeStep(const Claim& claim);  // the node may still have the volume

// Whether the claim needs the volume published to that node of the plugin.
bool NeedsPublish(const Claim& claim, const std::string& external_node_id);

std::string ClaimName(const Claim& claim);  // for messages, and for its work: "write claim of 'web-1' on 'db'"

// The node has no more to do, because it has detached the volume or is given up. False: this was so before.
bool BeginControllerStep(Claim& claim);

// Reads and changes stored claims. A change that loses a race against another writer is repeated on the new record.
class ClaimRecords {
 public:
  // Both outlive it.
  ClaimRecords(RecordsStore& store, Events& events) : store_(store), events_(events) {}

  RecordsStore& store() { return store_; }

  absl::StatusOr<std::optional<Claim>> Find(const VolumeKey& volume, ClaimMode mode, const std::string& allocation);

  // Changes the stored record of `claim` and returns it as it is then; nullopt: it is gone. `change` returns false to
  // leave the record as it is, and may be called several times.
  absl::StatusOr<std::optional<Claim>> Change(const Claim& claim, const std::function<bool(Claim&)>& change,
                                              Durability durability = Durability::kSynced);

  // As an event.
  void Report(const VolumeKey& volume, const std::string& allocation, bool bad, const std::string& text);
  void Report(const Claim& claim, bool bad, const std::string& text) {
    Report(claim.volume, claim.allocation, bad, text);
  }

 private:
  RecordsStore& store_;
  Events& events_;
};

// Marks volumes whose plugin answered RESOURCE_EXHAUSTED to a publish. A marked volume is not claimed on that host for
// an hour, or until the health of its plugin changes there (docs/manager.md, "What holds"). CSI 1.12 knows such limits
// of a node only, so other hosts may claim it.
class ExhaustedMarks {
 public:
  // The references outlive it.
  ExhaustedMarks(ClaimRecords& records, HostDirectory& hosts, std::function<Time()> now)
      : records_(records), hosts_(hosts), now_(std::move(now)) {}

  // Whether a claim of this host must wait.
  bool IsSet(const Volume& volume, const std::string& host) const;

  // Sets or renews the mark, in place of that of another host. Repeated marks with the same words are reported as one
  // event.
  void Set(const VolumeKey& volume, const std::string& host, const std::string& words);

  // Clears the marks of this host on all volumes of `plugin`.
  void Clear(const std::string& plugin);

 private:
  bool IsOf(const Volume& volume, const std::string& host) const;

  ClaimRecords& records_;
  HostDirectory& hosts_;
  const std::function<Time()> now_;
};

}  // namespace mooring::manager
