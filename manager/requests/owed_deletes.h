// Deletes of keys in the shared state that must be made, also if the state is away now.
#pragma once

#include "manager/csi/csi_channel.h"
#include "manager/state/state.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class OwedDeletes {
 public:
  OwedDeletes(State& shared, WorkQueue& queue)
      : shared_(shared),
        work_(queue, {.kind = "delete",
                      .first_retry = std::chrono::milliseconds(200),
                      .longest_retry = std::chrono::seconds(10)}) {}

  // Commits the deletes. If that fails, it is repeated in the background until it succeeds, or until a compare does not
  // hold. While the lease of this host is not valid, everything is left to the background.
  void Make(const Transaction& deletes);
  void MakeLater(const Transaction& deletes);  // leaves everything to the background

  void Stop() { work_.Stop(); }  // drops what is left: the keys end with the lease

 private:
  absl::Status Try(const Transaction& deletes);

  State& shared_;
  WorkKind work_;
};

}  // namespace mooring::manager
