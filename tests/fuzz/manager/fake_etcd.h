// An etcd in this process. Unary calls of its generated stubs reach it without gRPC, and streams over an in-process
// channel. An input can replace its answers.
#pragma once

#include <etcd.grpc.pb.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "etcd_answers.pb.h"

namespace mooring::fuzz {

class FakeEtcd {
 public:
  static FakeEtcd& Get();  // the one that all stubs call

  void Begin(const Input& input, const std::string& root);

  grpc::Status Range(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse& response);
  grpc::Status Txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response);
  grpc::Status Grant(const etcdserverpb::LeaseGrantRequest& request, etcdserverpb::LeaseGrantResponse& response);
  grpc::Status Revoke(const etcdserverpb::LeaseRevokeRequest& request, etcdserverpb::LeaseRevokeResponse& response);
  grpc::Status Authenticate(const etcdserverpb::AuthenticateRequest& request,
                            etcdserverpb::AuthenticateResponse& response);

  void EndLeases();
  std::map<std::string, mvccpb::KeyValue> Values();  // below the root, by key
  std::vector<etcdserverpb::WatchResponse> Changes();
  bool HasLied();    // an answer of the input was given
  bool HasFailed();  // a failure of the input was given
  bool HasSecret();  // a request had the secret

 private:
  enum class Kind { kRange, kTxn, kGrant, kToken, kOther };
  template <typename Request, typename Response, typename Do>
  grpc::Status Serve(Kind kind, const Request& request, Response& response, Do perform);
  const Answer* Next(Kind kind);
  void Do(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse& response);
  void Do(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response);
  bool Holds(const etcdserverpb::Compare& compare) const;
  void Put(const etcdserverpb::PutRequest& request);
  void EndLease(std::int64_t id);

  std::mutex mutex_;
  Input input_;
  std::string root_;
  std::vector<bool> given_;  // of the answers
  std::map<std::string, mvccpb::KeyValue> values_;
  std::set<std::int64_t> leases_;
  std::int64_t revision_ = 0, last_lease_ = 0;
  bool lied_ = false, failed_ = false, has_secret_ = false;
};

}  // namespace mooring::fuzz
