// The lease of this host in etcd, and the key live/<host> below it. A thread renews it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/etcd/etcd_client.h"
#include "manager/state/state.h"

namespace mooring::manager {

class EtcdLease final : public Lease {
 public:
  struct Holder {
    std::string host;
    std::string id;   // of the installation
    std::string key;  // live/<host>, as etcd knows it
    std::chrono::milliseconds ttl;
  };

  // FAILED_PRECONDITION: another manager holds the key.
  static absl::StatusOr<std::unique_ptr<EtcdLease>> Take(std::shared_ptr<EtcdClient> client, Holder holder);

  Clock::time_point ValidUntil() override;
  std::int64_t Number() override;  // the revision that created the key
  void OnChange(std::function<void()> changed) override;

  struct Current {
    std::int64_t number = 0;
    std::int64_t id = 0;  // etcd's
  };
  Current Now();
  const std::string& key() const { return holder_.key; }

  // A commit has found that the key is not of lease `number` any more.
  void HasEnded(std::int64_t number);
  absl::Status Ended() const;  // UNAVAILABLE

 private:
  EtcdLease(std::shared_ptr<EtcdClient> client, Holder holder)
      : client_(std::move(client)), holder_(std::move(holder)) {}
  absl::Status TakeNew();
  absl::StatusOr<std::int64_t> PutKey(std::int64_t id);
  absl::Status Revoke(std::int64_t id);
  absl::Status Renew();
  void Run(const std::stop_token& stop);
  void Set(Current current, Clock::time_point valid_until);
  Clock::time_point Validity(Clock::time_point sent) const { return sent + holder_.ttl * 9 / 10; }

  const std::shared_ptr<EtcdClient> client_;
  const Holder holder_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  Current current_;                // under mutex_
  Clock::time_point valid_until_;  // under mutex_
  std::function<void()> changed_;  // under mutex_
  std::jthread thread_;            // last: it ends before the rest
};

}  // namespace mooring::manager
