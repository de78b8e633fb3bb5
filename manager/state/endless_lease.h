// The lease of a store that one host uses alone: it never ends.
#pragma once

#include <cstdint>

#include "manager/state/state.h"

namespace mooring::manager {

class EndlessLease final : public Lease {
 public:
  Clock::time_point ValidUntil() override { return Clock::time_point::max(); }
  Clock::time_point TakenAt() override { return taken_at_; }
  std::int64_t Number() override { return 1; }

 private:
  const Clock::time_point taken_at_ = Clock::now();
};

}  // namespace mooring::manager
