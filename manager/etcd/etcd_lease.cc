#include "manager/etcd/etcd_lease.h"

#include <etcd.grpc.pb.h>
#include <fmt/chrono.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kRetry{500};

std::string_view Installation(std::string_view id) { return id.substr(0, id.find('@')); }

// "<id> <time>"
std::string LiveValue(const std::string& id) {
  return fmt::format("{} {:%Y-%m-%dT%H:%M:%SZ}", id, fmt::gmtime(std::time(nullptr)));
}

absl::StatusOr<etcdserverpb::TxnResponse> Commit(EtcdClient& client, const etcdserverpb::TxnRequest& request) {
  etcdserverpb::TxnResponse response;
  MOORING_RETURN_IF_ERROR(client.Call("take a lease", [&](const auto& member, grpc::ClientContext& context) {
    response.Clear();
    return etcdserverpb::KV::NewStub(member)->Txn(&context, request, &response);
  }));
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdLease>> EtcdLease::Take(std::shared_ptr<EtcdClient> client, Holder holder) {
  std::unique_ptr<EtcdLease> lease(new EtcdLease(std::move(client), std::move(holder)));
  const absl::Status taken = lease->TakeNew();
  if (!taken.ok() && !MayPass(taken)) return taken;
  lease->Say(taken);
  lease->thread_ = std::jthread([&self = *lease](const std::stop_token& stop) { self.Run(stop); });
  return lease;
}

Lease::Clock::time_point EtcdLease::ValidUntil() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return valid_until_;
}

Lease::Clock::time_point EtcdLease::TakenAt() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return taken_at_;
}

std::int64_t EtcdLease::Number() { return Now().number; }

EtcdLease::Current EtcdLease::Now() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return current_;
}

absl::Status EtcdLease::Ended() const {
  return Unavailable("the lease of host {} in {} ended, so no record was changed: try again when it has a new one",
                     Quote(holder_.host), client_->name());
}

void EtcdLease::HasEnded(std::int64_t number) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (current_.number != number) return;
    current_.number = 0;
    valid_until_ = {};
  }
  wake_.notify_all();
}

void EtcdLease::Set(Current current, Clock::time_point valid_until) {
  const std::lock_guard<std::mutex> lock(mutex_);
  current_ = current;
  valid_until_ = valid_until;
  taken_at_ = Clock::now();
}

// Before the first lease nothing is changed. So a host never works with a state that is not the one of its records.
absl::Status EtcdLease::CheckCluster() {
  constexpr std::size_t kBytes = 8;
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& missing = *request.add_compare();
  missing.set_target(etcdserverpb::Compare::CREATE);
  missing.set_key(holder_.cluster_key);
  missing.set_create_revision(0);
  const std::string fresh = RandomHex(kBytes);
  if (cluster_.empty()) {
    etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(holder_.cluster_key);
    put.set_value(fresh);
  }
  request.add_failure()->mutable_request_range()->set_key(holder_.cluster_key);
  MOORING_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse response, Commit(*client_, request));
  const mvccpb::KeyValue* const known = FoundBy(response, 0);
  if (!response.succeeded() && known == nullptr) return client_->WrongAnswer("a key exists, and is missing");
  const std::string found = !response.succeeded() ? known->value() : cluster_.empty() ? fresh : "";
  if (cluster_.empty()) cluster_ = found;
  if (found == cluster_) return absl::OkStatus();
  const std::string prefix = holder_.cluster_key.substr(0, holder_.cluster_key.size() - ClusterKey().size());
  return FailedPrecondition(
      "{} has {} below the prefix {}, but the records of this host belong to the shared state {}: correct --state "
      "or "
      "--etcd-prefix, or restore the copy of that state",
      client_->name(), found.empty() ? "no state" : "the shared state " + Visible(found), Quote(prefix),
      Visible(cluster_));
}

absl::Status EtcdLease::TakeNew() {
  MOORING_RETURN_IF_ERROR(CheckCluster());
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(std::chrono::duration_cast<std::chrono::seconds>(holder_.ttl).count());
  etcdserverpb::LeaseGrantResponse response;
  Clock::time_point sent;
  MOORING_RETURN_IF_ERROR(client_->Call("take a lease", [&](const auto& member, grpc::ClientContext& context) {
    sent = Clock::now();
    return etcdserverpb::Lease::NewStub(member)->LeaseGrant(&context, request, &response);
  }));
  // A key with lease 0 would stay for ever.
  if (response.id() == 0) return client_->WrongAnswer("a lease has no id");
  absl::StatusOr<std::int64_t> number = PutKey(response.id());
  if (!number.ok()) {
    (void)Revoke(response.id());  // otherwise it ends by itself
    return number.status();
  }
  Set({.number = *number, .id = response.id()}, Validity(sent));
  return absl::OkStatus();
}

// Gives the revision that created the key.
absl::StatusOr<std::int64_t> EtcdLease::PutKey(std::int64_t id) {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& missing = *request.add_compare();
  missing.set_target(etcdserverpb::Compare::CREATE);
  missing.set_key(holder_.key);
  missing.set_create_revision(0);
  etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(holder_.key);
  put.set_value(LiveValue(holder_.id));
  put.set_lease(id);
  request.add_failure()->mutable_request_range()->set_key(holder_.key);
  for (int tries = 0; tries < 5; ++tries) {
    MOORING_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse response, Commit(*client_, request));
    const mvccpb::KeyValue* const known = FoundBy(response, 0);
    if (!response.succeeded() && known == nullptr) return client_->WrongAnswer("a key exists, and is missing");
    const bool is_ours = response.succeeded() || known->lease() == id;  // or the answer of an earlier try was lost
    if (is_ours) {
      const std::int64_t number = response.succeeded() ? response.header().revision() : known->create_revision();
      return number > 0 ? absl::StatusOr<std::int64_t>(number) : client_->WrongAnswer("a key has no revision");
    }
    const mvccpb::KeyValue& found = *known;
    const std::vector<std::string> value = absl::StrSplit(found.value(), ' ');
    if (value[0] != holder_.id && Installation(value[0]) == Installation(holder_.id)) {
      return Unavailable(
          "the lease of host {} in {}, of an earlier boot or of a copy of its state directory, has not ended yet",
          Quote(holder_.host), client_->name());
    }
    if (value[0] != holder_.id) {
      return FailedPrecondition(
          "another manager with the name of this host, {}, is alive in {} since {}: stop it, or "
          "give this host another name",
          Quote(holder_.host), client_->name(), Visible(value.back()));
    }
    if (found.lease() == 0)
      return Internal("the key {} in {} has no lease: delete it", Quote(holder_.key), client_->name());
    MOORING_RETURN_IF_ERROR(Revoke(found.lease()));  // this manager was restarted
  }
  return Unavailable("the lease of host {} in {} is taken again and again: is the same manager started twice?",
                     Quote(holder_.host), client_->name());
}

absl::Status EtcdLease::Revoke(std::int64_t id) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(id);
  const absl::Status status = client_->Call("end a lease", [&](const auto& member, grpc::ClientContext& context) {
    etcdserverpb::LeaseRevokeResponse response;
    return etcdserverpb::Lease::NewStub(member)->LeaseRevoke(&context, request, &response);
  });
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// NOT_FOUND: it has ended.
absl::Status EtcdLease::Renew() {
  const Current current = Now();
  if (current.number == 0) return NotFound("the lease ended");
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(current.id);
  etcdserverpb::LeaseKeepAliveResponse response;
  Clock::time_point sent;
  MOORING_RETURN_IF_ERROR(client_->Call("renew the lease", [&](const auto& member, grpc::ClientContext& context) {
    sent = Clock::now();
    const auto stream = etcdserverpb::Lease::NewStub(member)->LeaseKeepAlive(&context);
    stream->Write(request);
    const bool read = stream->Read(&response);
    context.TryCancel();
    const grpc::Status status = stream->Finish();
    return read ? grpc::Status::OK : status;
  }));
  if (response.ttl() <= 0) return NotFound("the lease ended");
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_.number == current.number) valid_until_ = Validity(sent);
  return absl::OkStatus();
}

void EtcdLease::Run(const std::stop_token& stop) {
  std::chrono::milliseconds pause = Now().number == 0 ? kRetry : holder_.ttl / 3;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const bool had = current_.number != 0;
      wake_.wait_for(lock, stop, pause, [&] { return had && current_.number == 0; });
    }
    if (stop.stop_requested()) return;
    absl::Status status = Renew();
    if (absl::IsNotFound(status)) status = TakeAgain();
    Say(status);
    pause = status.ok() ? holder_.ttl / 3 : std::min(kRetry, holder_.ttl / 3);
  }
}

absl::Status EtcdLease::TakeAgain() {
  const Current old = Now();
  Set({.number = 0, .id = old.id}, {});
  if (old.id != 0) (void)Revoke(old.id);  // its other keys end with it, if only live/<host> was deleted
  return TakeNew();
}

// A line for each new cause, and one when it is over.
void EtcdLease::Say(const absl::Status& status) {
  const std::string cause = status.ok() ? "" : Message(status);
  if (cause == said_) return;
  if (cause.empty()) {
    log::Info("the shared state answers again", {{"host", holder_.host}, {"state", client_->name()}});
  } else {
    log::Warning("the shared state does not answer, so nothing new is attached; mounts stay",
                 {{"host", holder_.host}, {"cause", cause}});
  }
  said_ = cause;
}

}  // namespace mooring::manager
