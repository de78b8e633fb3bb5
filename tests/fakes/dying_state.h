// A State that fails from a commit on, as if the process had been killed there. Several states may share one life.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "manager/state/state.h"

namespace mooring::testing {

class DyingState final : public manager::State {
 public:
  struct Life {
    int left = 0;          // commits that are made
    bool is_lost = false;  // the next one is made, too, but its answer is lost
    bool ended = false;
  };

  // Both outlive it.
  DyingState(manager::State& state, Life& life) : state_(state), life_(life) {}

  manager::Lease& lease() override { return state_.lease(); }
  absl::StatusOr<manager::Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                                        manager::Freshness freshness) override {
    if (life_.ended) return Internal("killed");
    return state_.Read(keys, prefix, freshness);
  }
  absl::StatusOr<std::unique_ptr<manager::Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    return state_.StartWatch(prefix, from);
  }
  void EndWatches() override { state_.EndWatches(); }

 private:
  absl::StatusOr<std::int64_t> DoCommit(const manager::Transaction& transaction) override {
    if (life_.ended) return Internal("killed");
    if (life_.left-- > 0) return state_.Commit(transaction);
    life_.ended = true;
    if (life_.is_lost) MOORING_RETURN_IF_ERROR(state_.Commit(transaction).status());
    return Internal("killed");
  }

  manager::State& state_;
  Life& life_;
};

}  // namespace mooring::testing
