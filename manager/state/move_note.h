// A note in the local state of a host: its volumes and claims are being moved to the shared state, or back. While it is
// there, they may be in both states, so the manager does not start (open_state.h).
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "manager/state/state.h"

namespace mooring::manager {

struct MoveNote {
  enum class To { kShared, kLocal };
  To to = To::kShared;
  std::string cluster;  // the id of the shared state

  bool operator==(const MoveNote&) const = default;
};

// INTERNAL: the note is damaged.
absl::StatusOr<std::optional<MoveNote>> ReadMoveNote(State& local, const std::string& host);

Transaction::Put Noted(const std::string& host, const MoveNote& note);

}  // namespace mooring::manager
