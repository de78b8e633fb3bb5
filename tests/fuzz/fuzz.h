// Shared by the fuzz targets. A target checks invariants with Require. libFuzzer stores the input if one is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/log.h"

namespace mooring::fuzz {

// Where Require prints: a target may redirect stderr.
inline int error_fd = 2;

// Ends the process if an invariant is broken. `details` are printed.
inline void Require(bool holds, std::string_view invariant, const std::string& details = "") {
  if (holds) return;
  ::dprintf(error_fd, "\nBROKEN: %.*s\n%s\n", static_cast<int>(invariant.size()), invariant.data(), details.c_str());
  std::abort();
}

// Calls of a target's code write no log lines: they would take more time than the calls.
inline const bool kQuiet = log::Setup("error", "text").ok();

// With MOORING_FUZZ_SHOW in the environment, a replay prints what happens.
inline void Show(const std::string& line) {
  static const bool shows = std::getenv("MOORING_FUZZ_SHOW") != nullptr;
  if (shows) ::dprintf(error_fd, "%s\n", line.c_str());
}

// Inputs get this secret. A secret that a mutation made may occur in any error by chance.
inline constexpr std::string_view kSecret = "hunter2-secret";
inline bool HasSecret(std::string_view text) { return text.find(kSecret) != std::string_view::npos; }

inline std::string_view Text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace mooring::fuzz
