// A State in memory without durability. A test can let it fail from any commit on. Several hosts can share it, each
// with a lease of its own (memory_host.h). Safe from several threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/state.h"
#include "manager/state/store_parts.h"

namespace mooring::testing {

class MemoryState final : public manager::State {
 public:
  static constexpr std::int64_t kEndless = 1;  // the number of this state's own lease

  manager::Lease& lease() override { return lease_; }

  // From commit n + 1 on nothing is stored, as if the process had been killed before it. -1: never.
  void DieAfter(int commits) {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_ = commits;
  }
  // Called before each commit, with no lock held, so that a test can write between a read and its commit.
  void BeforeCommit(std::function<void(const manager::Transaction&)> hook) {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_commit_ = std::move(hook);
  }
  int commits() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return commits_;
  }

  absl::StatusOr<manager::Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                                        manager::Freshness) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    manager::Listing listing;
    listing.revision = revision_;
    for (const std::string& key : keys) {
      if (const auto found = values_.find(key); found != values_.end()) listing.values.push_back(found->second);
    }
    if (!prefix) return listing;
    for (auto at = values_.lower_bound(*prefix); at != values_.end() && at->first.starts_with(*prefix); ++at) {
      listing.values.push_back(at->second);
    }
    return listing;
  }

  absl::StatusOr<std::int64_t> DoCommit(const manager::Transaction& transaction) override {
    return CommitUnder(kEndless, transaction);
  }

  // A commit of a host under its lease. UNAVAILABLE: the lease has ended.
  absl::StatusOr<std::int64_t> CommitUnder(std::int64_t lease, const manager::Transaction& transaction) {
    if (const auto hook = Hook()) hook(transaction);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lease != kEndless && !leases_.contains(lease)) return Unavailable("lease {} has ended", lease);
    MOORING_RETURN_IF_ERROR(Check(transaction));
    if (left_ == 0) return Internal("killed before this commit");
    if (left_ > 0) --left_;
    return Append(Apply(transaction, lease));
  }

  std::int64_t NewLease() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return *leases_.insert(++last_lease_).first;
  }

  // Deletes the keys that were put under the lease.
  void EndLease(std::int64_t lease) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (leases_.erase(lease) == 0) return;
    manager::Transaction deletes;
    for (const auto& [key, of_key] : lease_of_) {
      if (of_key == lease) deletes.deletes.push_back(key);
    }
    (void)Append(Apply(deletes, lease));
  }

  absl::StatusOr<std::unique_ptr<manager::Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    return log_->StartWatch(prefix, from);
  }

  void EndWatches() override { log_->Close(); }

 private:
  std::function<void(const manager::Transaction&)> Hook() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return before_commit_;
  }

  absl::Status Check(const manager::Transaction& transaction) const {
    std::set<std::string> changed;
    bool twice = false;
    for (const auto& put : transaction.puts) twice = !changed.insert(put.key).second || twice;
    for (const auto& key : transaction.deletes) twice = !changed.insert(key).second || twice;
    if (twice) return InvalidArgument("a key is changed twice");
    for (const auto& compare : transaction.compares) {
      const auto found = values_.find(compare.key);
      const std::int64_t now = found == values_.end() ? 0 : found->second.modify_revision;
      if (now != compare.modify_revision) {
        return Aborted("{} has revision {} now, not {}", Quote(compare.key), now, compare.modify_revision);
      }
    }
    return absl::OkStatus();
  }

  // Gives the revision.
  std::int64_t Append(std::vector<manager::Change> changes) {
    if (changes.empty()) return revision_;
    ++commits_;
    ++revision_;
    log_->Append(std::move(changes));
    return revision_;
  }

  void SetLease(const manager::Transaction::Put& put, std::int64_t lease) {
    switch (put.ends_with) {
      case manager::Transaction::EndsWith::kNoLease:
        lease_of_.erase(put.key);
        break;
      case manager::Transaction::EndsWith::kOwnLease:
        lease_of_[put.key] = lease;
        break;
      case manager::Transaction::EndsWith::kItsLease:
        break;
    }
  }

  std::vector<manager::Change> Apply(const manager::Transaction& transaction, std::int64_t lease) {
    const std::int64_t next = revision_ + 1;
    std::vector<manager::Change> changes;
    for (const auto& put : transaction.puts) {
      manager::KeyValue& value = values_[put.key];
      const std::int64_t made = value.create_revision == 0 ? next : value.create_revision;
      value = {.key = put.key, .value = put.value, .create_revision = made, .modify_revision = next};
      changes.push_back({.kind = manager::Change::Kind::kPut, .value = value});
      SetLease(put, lease);
    }
    for (const std::string& key : transaction.deletes) {
      const auto found = values_.find(key);
      if (found == values_.end()) continue;
      found->second.modify_revision = next;
      changes.push_back({.kind = manager::Change::Kind::kDelete, .value = found->second});
      values_.erase(found);
      lease_of_.erase(key);
    }
    return changes;
  }

  std::mutex mutex_;
  std::map<std::string, manager::KeyValue> values_;
  std::map<std::string, std::int64_t> lease_of_;  // by key
  std::set<std::int64_t> leases_;
  std::int64_t last_lease_ = kEndless;
  std::int64_t revision_ = 0;
  int commits_ = 0;
  int left_ = -1;
  std::function<void(const manager::Transaction&)> before_commit_;
  const std::shared_ptr<manager::ChangeLog> log_ = std::make_shared<manager::ChangeLog>(0);
  manager::EndlessLease lease_;
};

}  // namespace mooring::testing
