// Calls to an etcd cluster through any of its members.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace etcdserverpb {
class RangeRequest;
class RangeResponse;
class TxnResponse;
}  // namespace etcdserverpb
namespace mvccpb {
class KeyValue;
}  // namespace mvccpb

namespace mooring::manager {

// The members of a cluster as in the flag --state, "etcd://host1:2379,[::1]:2379,unix:/run/etcd.sock", as gRPC wants
// them. INVALID_ARGUMENT otherwise.
absl::StatusOr<std::vector<std::string>> ParseEtcdEndpoints(const std::string& endpoints);

// Whether connections to the member stay on this host: a loopback address, "localhost" or a unix socket.
bool StaysOnHost(const std::string& member);

struct EtcdConnection {
  std::string endpoints;  // "etcd://host1:2379,host2:2379,host3:2379"; each is a member of the same cluster
  // PEM files. With `ca_file`, all connections use TLS, and the members' certificates must be signed by it.
  std::string ca_file;
  std::string certificate_file;  // of this client, with key_file; empty: none
  std::string key_file;
  std::string user;  // empty: no authentication
  std::string password_file;
  std::chrono::milliseconds try_timeout{2000};  // for each try with one member
};

// Safe from several threads.
class EtcdClient {
 public:
  // Connects at the first call. INVALID_ARGUMENT: a setting is wrong. Other errors are those of reading the files.
  static absl::StatusOr<std::shared_ptr<EtcdClient>> Open(const EtcdConnection& connection);

  // A single try with one member.
  using Try = std::function<grpc::Status(const std::shared_ptr<grpc::Channel>& member, grpc::ClientContext& context)>;

  // Tries one member after another, for Patience() or until `until`, while they are away or have no leader. `action`
  // completes "cannot ...". `answer_lost`: the call may not be made twice; it is set when a member got the call but
  // gave no answer. Errors name the endpoints. UNAVAILABLE: no member has answered, or etcd is full.
  using Clock = std::chrono::steady_clock;
  absl::Status Call(std::string_view action, const Try& attempt, bool* answer_lost = nullptr,
                    Clock::time_point until = Clock::time_point::max());
  std::chrono::milliseconds Patience() const { return is_ending_ ? kLastPatience : 3 * connection_.try_timeout; }

  // The manager stops: calls end soon if etcd does not answer, also those under way.
  void BeginStop() { is_ending_ = true; }

  // The members, from 0, for calls that last. Prepare connects to a member, and adds what each call needs.
  std::size_t size() const { return members_.size(); }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Prepare(std::size_t member, grpc::ClientContext& context);

  // INTERNAL: what is wrong with an answer that etcd never gives.
  absl::Status WrongAnswer(std::string_view why) const;

  const std::string& name() const { return name_; }  // "etcd at host1:2379,host2:2379"

 private:
  explicit EtcdClient(const EtcdConnection& connection) : connection_(connection) {}
  absl::StatusOr<std::string> Token(const std::shared_ptr<grpc::Channel>& member);
  void ForgetToken();
  absl::Status Explain(std::string_view action, const absl::Status& status) const;

  std::chrono::milliseconds TryTimeout() const { return std::min(connection_.try_timeout, Patience()); }

  static constexpr std::chrono::milliseconds kLastPatience{500};

  const EtcdConnection connection_;
  std::atomic<bool> is_ending_ = false;
  std::string name_;
  std::string password_;
  std::vector<std::shared_ptr<grpc::Channel>> members_;
  std::atomic<std::size_t> preferred_ = 0;  // the member that answered last
  std::mutex mutex_;
  std::string token_;  // under mutex_; empty: not authenticated yet
};

// Checks of etcd's answers before the manager believes them. A wrong address, a proxy or a damaged member may answer
// anything.

// INTERNAL: a key of the page was not asked for, or is not in order. Or the page is empty, and says that more follow.
absl::Status CheckPage(const etcdserverpb::RangeRequest& asked, const etcdserverpb::RangeResponse& page);

// The key that this step of a transaction has read. Null: it is missing, or the answer has no such step.
const mvccpb::KeyValue* FoundBy(const etcdserverpb::TxnResponse& response, int step);

}  // namespace mooring::manager
