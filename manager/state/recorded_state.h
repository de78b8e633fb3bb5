// A state whose commits are counted.
#ifndef MOORING_MANAGER_STATE_RECORDED_STATE_H_
#define MOORING_MANAGER_STATE_RECORDED_STATE_H_

#include <chrono>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Told of each commit: from many threads, with no lock of the state's held.
using OnCommit = std::function<void(absl::StatusCode code, std::chrono::steady_clock::duration took)>;

std::unique_ptr<State> Recorded(std::unique_ptr<State> state, OnCommit on_commit);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_RECORDED_STATE_H_
