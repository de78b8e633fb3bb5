// Deletes of keys in the shared state that must be made, also if the state is away now.
#pragma once

#include "manager/attach/work_lanes.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/state.h"

namespace mooring::manager {

class OwedDeletes {
 public:
  explicit OwedDeletes(State& shared) : shared_(shared) {}

  // Commits the deletes. If that fails, it is repeated in the background until it succeeds, or until a compare does not
  // hold. While the lease of this host is not valid, everything is left to the background.
  void Make(const Transaction& deletes);
  void MakeLater(const Transaction& deletes);  // leaves everything to the background

  void Stop() { lanes_.Stop(); }  // drops what is left: the keys end with the lease

 private:
  void Try(const Transaction& deletes, Clock::duration next_pause);
  void Push(const Transaction& deletes, Clock::duration pause);

  State& shared_;
  WorkLanes lanes_{1};
};

}  // namespace mooring::manager
