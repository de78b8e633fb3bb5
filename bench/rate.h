// The calls a second of several clients at a time, each with a connection of its own.
#pragma once

#include <chrono>

#include "bench/driver.h"

namespace mooring::bench {

// Empty calls (Probe).
double EmptyCallsASecond(const Driver& driver, int clients, std::chrono::milliseconds time);

// Pairs of publish and unpublish. Each client has a volume and a target of its own.
double PairsASecond(const Driver& driver, int clients, std::chrono::milliseconds time, bool stages = true);

}  // namespace mooring::bench
