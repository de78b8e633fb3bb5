#include "tests/fuzz/manager/fake_etcd.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <time.h>

#include <utility>

#include "tests/fuzz/fuzz.h"

namespace grpc::internal {

// The generated stubs make unary calls through this template. These specialisations take them, so this file compiles
// the stubs (etcd.grpc.pb.cc, below).
#define MOORING_UNARY(name, method)                                                                          \
  template <>                                                                                                \
  Status BlockingUnaryCall<etcdserverpb::name##Request, etcdserverpb::name##Response, protobuf::MessageLite, \
                           protobuf::MessageLite>(ChannelInterface*, const RpcMethod&, ClientContext*,       \
                                                  const etcdserverpb::name##Request& request,                \
                                                  etcdserverpb::name##Response* response) {                  \
    return mooring::fuzz::FakeEtcd::Get().method(request, *response);                                        \
  }
MOORING_UNARY(Range, Range)
MOORING_UNARY(Txn, Txn)
MOORING_UNARY(LeaseGrant, Grant)
MOORING_UNARY(LeaseRevoke, Revoke)
MOORING_UNARY(Authenticate, Authenticate)
#undef MOORING_UNARY

}  // namespace grpc::internal

#include <etcd.grpc.pb.cc>  // NOLINT(bugprone-suspicious-include)

namespace mooring::fuzz {
namespace {

class WatchService final : public etcdserverpb::Watch::Service {
  using Stream = grpc::ServerReaderWriter<etcdserverpb::WatchResponse, etcdserverpb::WatchRequest>;
  grpc::Status Watch(grpc::ServerContext*, Stream* stream) override {
    etcdserverpb::WatchRequest request;
    stream->Read(&request);
    for (const etcdserverpb::WatchResponse& change : FakeEtcd::Get().Changes()) stream->Write(change);
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  }
};

class LeaseService final : public etcdserverpb::Lease::Service {};

grpc::Server& Server() {
  static auto& watch = *new WatchService;
  static auto& lease = *new LeaseService;
  static grpc::Server& server = *[] {
    grpc::ServerBuilder builder;
    builder.RegisterService(&watch);
    builder.RegisterService(&lease);
    return builder.BuildAndStart().release();
  }();
  return server;
}

}  // namespace

FakeEtcd& FakeEtcd::Get() {
  static auto& etcd = *new FakeEtcd;
  return etcd;
}

void FakeEtcd::Begin(const Input& input, const std::string& root) {
  const std::lock_guard<std::mutex> lock(mutex_);
  input_ = input;
  root_ = root;
  given_.assign(static_cast<std::size_t>(input.answers_size()), false);
  values_.clear();
  leases_.clear();
  revision_ = 1;
  lied_ = failed_ = has_secret_ = false;
  for (const Stored& stored : input.stored()) {
    std::string value = stored.value();
    if (stored.has_volume()) value = stored.volume().SerializeAsString();
    if (stored.has_claim()) value = stored.claim().SerializeAsString();
    if (stored.has_host()) value = stored.host().SerializeAsString();
    etcdserverpb::PutRequest put;
    put.set_key(root + stored.key());
    put.set_value(value);
    ++revision_;
    Put(put);
  }
}

const Answer* FakeEtcd::Next(Kind kind) {
  for (int i = 0; i < input_.answers_size(); ++i) {
    Answer& answer = *input_.mutable_answers(i);
    const bool fits = answer.has_failure() || (answer.has_range() && kind == Kind::kRange) ||
                      (answer.has_txn() && kind == Kind::kTxn) || (answer.has_grant() && kind == Kind::kGrant) ||
                      (answer.has_token() && kind == Kind::kToken);
    if (!fits || given_[static_cast<std::size_t>(i)]) continue;
    if (answer.skip() > 0) {
      answer.set_skip(std::min(answer.skip(), 20U) - 1);
      continue;
    }
    given_[static_cast<std::size_t>(i)] = true;
    return &answer;
  }
  return nullptr;
}

template <typename Request, typename Response, typename Do>
grpc::Status FakeEtcd::Serve(Kind kind, const Request& request, Response& response, Do perform) {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_secret_ = has_secret_ || (kind != Kind::kToken && fuzz::HasSecret(request.SerializeAsString()));
  const Answer* const answer = Next(kind);
  if (answer == nullptr) return perform(response);
  if (answer->has_failure()) {
    failed_ = true;
    Response ignored;
    if (answer->failure().done()) (void)perform(ignored);
    const auto code = static_cast<grpc::StatusCode>(1 + answer->failure().code() % 16);
    return {code, answer->failure().text()};
  }
  lied_ = true;
  const auto& reflection = *answer->GetReflection();
  const auto* const field =
      reflection.GetOneofFieldDescriptor(*answer, Answer::descriptor()->FindOneofByName("answer"));
  Require(response.ParseFromString(reflection.GetMessage(*answer, field).SerializeAsString()), "an answer can be sent");
  return grpc::Status::OK;
}

grpc::Status FakeEtcd::Range(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse& response) {
  return Serve(Kind::kRange, request, response, [&](etcdserverpb::RangeResponse& made) {
    Do(request, made);
    return grpc::Status::OK;
  });
}

grpc::Status FakeEtcd::Txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response) {
  return Serve(Kind::kTxn, request, response, [&](etcdserverpb::TxnResponse& made) {
    Do(request, made);
    return grpc::Status::OK;
  });
}

grpc::Status FakeEtcd::Grant(const etcdserverpb::LeaseGrantRequest& request,
                             etcdserverpb::LeaseGrantResponse& response) {
  return Serve(Kind::kGrant, request, response, [&](etcdserverpb::LeaseGrantResponse& made) {
    made.set_id(*leases_.insert(++last_lease_).first);
    made.set_ttl(request.ttl());
    return grpc::Status::OK;
  });
}

grpc::Status FakeEtcd::Revoke(const etcdserverpb::LeaseRevokeRequest& request,
                              etcdserverpb::LeaseRevokeResponse& response) {
  return Serve(Kind::kOther, request, response, [&](etcdserverpb::LeaseRevokeResponse&) -> grpc::Status {
    if (!leases_.contains(request.id())) return {grpc::StatusCode::NOT_FOUND, "requested lease not found"};
    EndLease(request.id());
    return grpc::Status::OK;
  });
}

grpc::Status FakeEtcd::Authenticate(const etcdserverpb::AuthenticateRequest& request,
                                    etcdserverpb::AuthenticateResponse& response) {
  return Serve(Kind::kToken, request, response, [&](etcdserverpb::AuthenticateResponse& made) {
    made.set_token("token");
    return grpc::Status::OK;
  });
}

void FakeEtcd::Do(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse& response) {
  response.mutable_header()->set_revision(revision_);
  for (auto at = values_.lower_bound(request.key()); at != values_.end(); ++at) {
    const bool wanted = request.range_end().empty()
                            ? at->first == request.key()
                            : request.range_end() == std::string(1, '\0') || at->first < request.range_end();
    if (!wanted) break;
    if (request.limit() > 0 && response.kvs_size() == request.limit()) return response.set_more(true);
    *response.add_kvs() = at->second;
  }
}

bool FakeEtcd::Holds(const etcdserverpb::Compare& compare) const {
  const auto found = values_.find(compare.key());
  const mvccpb::KeyValue value = found == values_.end() ? mvccpb::KeyValue() : found->second;
  return compare.target() == etcdserverpb::Compare::CREATE ? value.create_revision() == compare.create_revision()
                                                           : value.mod_revision() == compare.mod_revision();
}

void FakeEtcd::Put(const etcdserverpb::PutRequest& request) {
  mvccpb::KeyValue& value = values_[request.key()];
  if (value.create_revision() == 0) value.set_create_revision(revision_);
  value.set_key(request.key());
  value.set_value(request.value());
  value.set_mod_revision(revision_);
  if (!request.ignore_lease()) value.set_lease(request.lease());
}

void FakeEtcd::Do(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response) {
  bool succeeds = true;
  for (const etcdserverpb::Compare& compare : request.compare()) succeeds = succeeds && Holds(compare);
  response.set_succeeded(succeeds);
  const auto& steps = succeeds ? request.success() : request.failure();
  for (const etcdserverpb::RequestOp& step : steps) {
    if (step.has_request_range()) continue;
    ++revision_;
    break;
  }
  for (const etcdserverpb::RequestOp& step : steps) {
    etcdserverpb::ResponseOp& done = *response.add_responses();
    if (step.has_request_range()) {
      Do(step.request_range(), *done.mutable_response_range());
    } else if (step.has_request_put()) {
      Put(step.request_put());
      done.mutable_response_put();
    } else {
      values_.erase(step.request_delete_range().key());
      done.mutable_response_delete_range();
    }
  }
  response.mutable_header()->set_revision(revision_);
}

void FakeEtcd::EndLease(std::int64_t id) {
  leases_.erase(id);
  ++revision_;
  std::erase_if(values_, [&](const auto& value) { return value.second.lease() == id; });
}

void FakeEtcd::EndLeases() {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!leases_.empty()) EndLease(*leases_.begin());
}

std::map<std::string, mvccpb::KeyValue> FakeEtcd::Values() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, mvccpb::KeyValue> below;
  for (const auto& [key, value] : values_) {
    if (key.starts_with(root_)) below[key.substr(root_.size())] = value;
  }
  return below;
}

std::vector<etcdserverpb::WatchResponse> FakeEtcd::Changes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {input_.changes().begin(), input_.changes().end()};
}

bool FakeEtcd::HasLied() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lied_;
}

bool FakeEtcd::HasFailed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed_;
}

bool FakeEtcd::HasSecret() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return has_secret_;
}

}  // namespace mooring::fuzz

// The client of etcd makes its channels with this function.
std::shared_ptr<grpc::Channel> grpc::CreateCustomChannel(const std::string&, const std::shared_ptr<ChannelCredentials>&,
                                                         const ChannelArguments& arguments) {
  return mooring::fuzz::Server().InProcessChannel(arguments);
}

// gRPC does not know this of in-process channels. The linker puts this function in place of gRPC's.
extern "C" grpc_connectivity_state __wrap_grpc_channel_check_connectivity_state(grpc_channel*, int) {
  return GRPC_CHANNEL_READY;
}

// The client waits between its tries.
extern "C" int nanosleep(const timespec*, timespec*) { return 0; }
