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
    std::string id;           // of the installation
    std::string key;          // live/<host>, as etcd knows it
    std::string cluster_key;  // the key with the id of the shared state
    std::string cluster;      // the id that it must have; empty: any, and a new one if there is none
    std::chrono::milliseconds ttl;
  };

  // FAILED_PRECONDITION: another manager holds the key. If etcd does not answer, the lease is taken when it does; until
  // then Number is 0. Other errors: etcd refuses the user or its certificate.
  static absl::StatusOr<std::unique_ptr<EtcdLease>> Take(std::shared_ptr<EtcdClient> client, Holder holder);

  Clock::time_point ValidUntil() override;
  Clock::time_point TakenAt() override;
  std::int64_t Number() override;  // the revision that created the key

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
      : client_(std::move(client)), holder_(std::move(holder)), cluster_(holder_.cluster) {}
  absl::Status TakeNew();
  absl::Status CheckCluster();
  absl::StatusOr<std::int64_t> PutKey(std::int64_t id);
  absl::Status Revoke(std::int64_t id);
  absl::Status Renew();
  void Run(const std::stop_token& stop);
  absl::Status TakeAgain();
  void Say(const absl::Status& status);
  void Set(Current current, Clock::time_point valid_until);
  Clock::time_point Validity(Clock::time_point sent) const { return sent + holder_.ttl * 9 / 10; }

  const std::shared_ptr<EtcdClient> client_;
  const Holder holder_;
  std::string cluster_;  // as Holder::cluster; known after the first lease. Used by one thread at a time
  std::mutex mutex_;
  std::condition_variable_any wake_;
  Current current_;                // under mutex_
  Clock::time_point valid_until_;  // under mutex_
  Clock::time_point taken_at_;     // under mutex_
  std::string said_;               // used by the thread only: the last error in the log
  std::jthread thread_;            // last: it ends before the rest
};

}  // namespace mooring::manager
