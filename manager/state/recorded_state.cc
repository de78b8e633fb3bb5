#include "manager/state/recorded_state.h"

#include <utility>

namespace mooring::manager {
namespace {

class RecordedState final : public State {
 public:
  RecordedState(std::unique_ptr<State> state, OnCommit on_commit)
      : state_(std::move(state)), on_commit_(std::move(on_commit)) {}

  absl::StatusOr<std::optional<KeyValue>> Get(const std::string& key) override { return state_->Get(key); }
  absl::StatusOr<Listing> List(const std::string& prefix) override { return state_->List(prefix); }

  absl::StatusOr<std::int64_t> Commit(const Transaction& transaction) override {
    const auto began = std::chrono::steady_clock::now();
    absl::StatusOr<std::int64_t> revision = state_->Commit(transaction);
    on_commit_(revision.status().code(), std::chrono::steady_clock::now() - began);
    return revision;
  }

  absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    return state_->StartWatch(prefix, from);
  }
  void EndWatches() override { state_->EndWatches(); }

 private:
  const std::unique_ptr<State> state_;
  const OnCommit on_commit_;
};

}  // namespace

std::unique_ptr<State> Recorded(std::unique_ptr<State> state, OnCommit on_commit) {
  return std::make_unique<RecordedState>(std::move(state), std::move(on_commit));
}

}  // namespace mooring::manager
