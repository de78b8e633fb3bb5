#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace mooring::testing {

// Asks every 3 ms. False: `holds` was still false after `patience`.
inline bool WaitUntil(const std::function<bool()>& holds, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  return true;
}

}  // namespace mooring::testing
