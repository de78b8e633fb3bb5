// The lease of a store that one host uses alone: it never ends.
#pragma once

#include <cstdint>

#include "manager/state/state.h"

namespace mooring::manager {

class EndlessLease final : public Lease {
 public:
  Clock::time_point ValidUntil() override { return Clock::time_point::max(); }
  std::int64_t Number() override { return 1; }
};

}  // namespace mooring::manager
