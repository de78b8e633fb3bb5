// A state without records, whose commits fail while its disk is full.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "manager/state/state.h"
#include "manager/state/store_parts.h"

namespace mooring::testing {

class BrokenState final : public manager::State {
 public:
  manager::Lease& lease() override { return lease_; }
  absl::StatusOr<manager::Listing> Read(const std::vector<std::string>&, const std::optional<std::string>&,
                                        manager::Freshness) override {
    return manager::Listing();
  }
  absl::StatusOr<std::int64_t> DoCommit(const manager::Transaction&) override {
    if (is_full) return ResourceExhausted("the disk is full");
    return 1;
  }
  absl::StatusOr<std::unique_ptr<manager::Watch>> StartWatch(const std::string&, std::int64_t) override {
    return Unimplemented("none");
  }
  void EndWatches() override {}

  std::atomic<bool> is_full = true;

 private:
  manager::EndlessLease lease_;
};

}  // namespace mooring::testing
