// A MemoryState as one of several hosts sees it: with a lease of its own, which a test can end. Safe from several
// threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "manager/state/keys.h"
#include "tests/fakes/memory_state.h"

namespace mooring::testing {

class MemoryLease final : public manager::Lease {
 public:
  explicit MemoryLease(MemoryState& store) : store_(store) { Take(); }

  Clock::time_point ValidUntil() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return number_ == 0 ? Clock::now() - std::chrono::seconds(1) : Clock::now() + std::chrono::seconds(10);
  }
  std::int64_t Number() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return number_;
  }
  // `changed` is called when the number has changed.
  void OnChange(std::function<void()> changed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_ = std::move(changed);
  }

  void Take() { Set(store_.NewLease()); }
  void End() {
    const std::int64_t number = Number();
    Set(0);
    store_.EndLease(number);
  }

 private:
  void Set(std::int64_t number) {
    std::function<void()> changed;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      number_ = number;
      changed = changed_;
    }
    if (changed) changed();
  }

  MemoryState& store_;
  std::mutex mutex_;
  std::int64_t number_ = 0;
  std::function<void()> changed_;
};

class MemoryHost final : public manager::State {
 public:
  explicit MemoryHost(MemoryState& store) : store_(store), lease_(store) {}
  ~MemoryHost() override { *closed_ = true; }

  MemoryLease& lease() override { return lease_; }

  void EndLease() { lease_.End(); }    // as if this host had died, or stood still
  void TakeLease() { lease_.Take(); }  // after an end

  // While it is away, calls give UNAVAILABLE, and watches show no changes.
  void SetAway(bool away) { flags_->away = away; }
  void LoseWatches() { ++flags_->lost; }               // each watch gives OUT_OF_RANGE
  void LoseSecretsKey() { has_secrets_key_ = false; }  // secrets cannot be read or written any more
  int lists() const { return lists_; }                 // reads of a prefix

  // The next commit for which `is_it` holds is made, but gives UNAVAILABLE.
  void LoseAnswer(std::function<bool(const manager::Transaction&)> is_it) {
    const std::lock_guard<std::mutex> lock(mutex_);
    loses_ = std::move(is_it);
  }

  // Called with each commit, before it is made and after it was made.
  using Hook = std::function<void(const manager::Transaction&)>;
  void OnCommit(Hook before, Hook after) {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_ = std::move(before);
    after_ = std::move(after);
  }

  absl::StatusOr<manager::Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                                        manager::Freshness freshness) override {
    if (prefix) ++lists_;
    MOORING_RETURN_IF_ERROR(Check());
    MOORING_ASSIGN_OR_RETURN(manager::Listing found, store_.Read(keys, prefix, freshness));
    for (manager::KeyValue& value : found.values) {
      if (CheckSecret(value.key).ok()) continue;
      value.value.clear();
      value.problem = Message(CheckSecret(value.key));
    }
    return found;
  }
  absl::StatusOr<std::unique_ptr<manager::Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    MOORING_ASSIGN_OR_RETURN(std::unique_ptr<manager::Watch> watch, store_.StartWatch(prefix, from));
    return std::make_unique<HostWatch>(std::move(watch), closed_, flags_);
  }
  void EndWatches() override { *closed_ = true; }

 private:
  struct Flags {
    std::atomic<bool> away = false;
    std::atomic<int> lost = 0;
  };

  class HostWatch final : public manager::Watch {
   public:
    HostWatch(std::unique_ptr<manager::Watch> watch, std::shared_ptr<std::atomic<bool>> closed,
              std::shared_ptr<Flags> flags)
        : watch_(std::move(watch)), closed_(std::move(closed)), flags_(std::move(flags)), lost_(flags_->lost) {}

    absl::StatusOr<std::vector<manager::Change>> Next(std::chrono::steady_clock::time_point until) override {
      constexpr std::chrono::milliseconds kSlice{5};
      for (;;) {
        if (*closed_) return absl::CancelledError("the manager is stopping");
        if (flags_->lost != lost_) return OutOfRange("the revision is not kept any more: list again");
        const auto now = std::chrono::steady_clock::now();
        const auto slice_end = std::min(until, now + kSlice);
        if (held_.empty()) {
          MOORING_ASSIGN_OR_RETURN(held_, watch_->Next(slice_end));
        } else {
          std::this_thread::sleep_until(slice_end);
        }
        if (!flags_->away && !held_.empty()) return std::exchange(held_, {});
        if (now >= until) return std::vector<manager::Change>();
      }
    }

   private:
    const std::unique_ptr<manager::Watch> watch_;
    const std::shared_ptr<std::atomic<bool>> closed_;
    const std::shared_ptr<Flags> flags_;
    const int lost_;
    std::vector<manager::Change> held_;  // while the store is away
  };

  absl::Status Check() const { return flags_->away ? Unavailable("the store is away") : absl::OkStatus(); }
  absl::Status CheckSecret(const std::string& key) const {
    if (has_secrets_key_ || !manager::IsSecret(key)) return absl::OkStatus();
    return FailedPrecondition("this manager has no key file for secrets: give it one");
  }

  absl::StatusOr<std::int64_t> DoCommit(const manager::Transaction& transaction) override {
    const std::int64_t lease = lease_.Number();
    Run(before_, transaction);
    MOORING_RETURN_IF_ERROR(Check());
    for (const auto& put : transaction.puts) MOORING_RETURN_IF_ERROR(CheckSecret(put.key));
    if (lease == 0) return Unavailable("this host has no lease now");
    auto revision = store_.CommitUnder(lease, transaction);
    if (revision.ok()) Run(after_, transaction);
    if (revision.ok() && Loses(transaction)) return Unavailable("it is not known whether the change was made");
    return revision;
  }
  bool Loses(const manager::Transaction& transaction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!loses_ || !loses_(transaction)) return false;
    loses_ = nullptr;
    return true;
  }
  void Run(const Hook& hook, const manager::Transaction& transaction) {
    Hook copy;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      copy = hook;
    }
    if (copy) copy(transaction);
  }

  MemoryState& store_;
  MemoryLease lease_;
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<Flags> flags_ = std::make_shared<Flags>();
  std::atomic<bool> has_secrets_key_ = true;
  std::atomic<int> lists_ = 0;
  std::mutex mutex_;
  Hook before_, after_;                                     // under mutex_
  std::function<bool(const manager::Transaction&)> loses_;  // under mutex_
};

}  // namespace mooring::testing
