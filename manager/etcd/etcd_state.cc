#include "manager/etcd/etcd_state.h"

#include <etcd.grpc.pb.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/etcd/etcd_client.h"
#include "manager/etcd/etcd_lease.h"
#include "manager/etcd/etcd_watch.h"
#include "manager/etcd/sealed_values.h"
#include "manager/state/keys.h"
#include "manager/state/store_parts.h"

namespace mooring::manager {
namespace {

constexpr std::int64_t kPage = 1000;  // keys in one answer
constexpr int kTries = 3;

class EtcdState final : public State {
 public:
  EtcdState(std::shared_ptr<EtcdClient> client, std::string root, std::unique_ptr<EtcdLease> lease,
            std::optional<SealedValues> sealed)
      : client_(std::move(client)),
        root_(std::move(root)),
        lease_(std::move(lease)),
        sealed_(std::move(sealed)),
        watches_(std::make_shared<EtcdWatches>(client_, root_)) {}
  ~EtcdState() override { watches_->Close(); }

  Lease& lease() override { return *lease_; }

  absl::StatusOr<Listing> Read(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                               Freshness freshness) override {
    Listing listing;
    const auto add = [&](KeyValue value) {
      listing.values.push_back(std::move(value));
      return absl::OkStatus();
    };
    // The revision of the first page may be compacted before the last is read.
    absl::Status status = absl::OutOfRangeError("");
    for (int tries = 0; tries < kTries && absl::IsOutOfRange(status); ++tries) {
      listing = {};
      status = ReadPages(keys, prefix, freshness, add, listing.revision);
    }
    if (!status.ok()) return status;
    return listing;
  }

  absl::Status Visit(const std::string& prefix, const Visitor& visit) override {
    std::int64_t revision = 0;
    return ReadPages({}, prefix, Freshness::kNow, visit, revision);
  }

  absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string& prefix, std::int64_t from) override {
    return watches_->Start(prefix, from);
  }

  void EndWatches() override {
    watches_->Close();
    client_->BeginStop();
  }

 private:
  // All parts and pages have the revision of the first.
  absl::Status ReadPages(const std::vector<std::string>& keys, const std::optional<std::string>& prefix,
                         Freshness freshness, const Visitor& visit, std::int64_t& revision) {
    std::vector<etcdserverpb::RangeRequest> parts;
    for (const std::string& key : keys) parts.emplace_back().set_key(root_ + key);
    if (prefix) {
      etcdserverpb::RangeRequest& page = parts.emplace_back();
      page.set_key(root_ + *prefix);
      page.set_range_end(EndOfPrefix(page.key()));
      page.set_limit(kPage);
    }
    for (etcdserverpb::RangeRequest& part : parts) part.set_serializable(freshness == Freshness::kMayBeOld);
    MOORING_ASSIGN_OR_RETURN(std::vector<etcdserverpb::RangeResponse> found, ReadTogether(parts));
    for (const etcdserverpb::RangeResponse& part : found) MOORING_RETURN_IF_ERROR(VisitAll(part, visit));
    if (found.empty()) return absl::OkStatus();
    revision = found.front().header().revision();
    etcdserverpb::RangeRequest next = parts.back();
    next.set_revision(revision);
    next.set_serializable(true);  // OUT_OF_RANGE: another member is asked, which does not have the revision yet
    while (found.back().more()) {
      next.set_key(found.back().kvs().rbegin()->key() + '\0');
      MOORING_ASSIGN_OR_RETURN(found.back(), ReadRange(next));
      MOORING_RETURN_IF_ERROR(VisitAll(found.back(), visit));
    }
    return absl::OkStatus();
  }

  // A single part needs no transaction. etcd 3.5.0 to 3.5.6 may crash when a transaction that only reads is cut off
  // (etcd-io/etcd#14110, #14891). docs/hosts.md excludes them.
  absl::StatusOr<std::vector<etcdserverpb::RangeResponse>> ReadTogether(
      const std::vector<etcdserverpb::RangeRequest>& parts) {
    std::vector<etcdserverpb::RangeResponse> found;
    if (parts.size() == 1) {
      MOORING_ASSIGN_OR_RETURN(found.emplace_back(), ReadRange(parts.front()));
      return found;
    }
    etcdserverpb::TxnRequest request;
    for (const etcdserverpb::RangeRequest& part : parts) *request.add_success()->mutable_request_range() = part;
    etcdserverpb::TxnResponse response;
    MOORING_RETURN_IF_ERROR(client_->Call("read", [&](const auto& member, grpc::ClientContext& context) {
      response.Clear();
      return etcdserverpb::KV::NewStub(member)->Txn(&context, request, &response);
    }));
    if (response.responses_size() != static_cast<int>(parts.size())) {
      return client_->WrongAnswer("it is not about all keys that were asked for");
    }
    for (const etcdserverpb::RangeRequest& part : parts) {
      found.push_back(std::move(*response.mutable_responses(static_cast<int>(found.size()))->mutable_response_range()));
      MOORING_RETURN_IF_ERROR(Check(part, found.back()));
    }
    if (!found.empty()) *found.front().mutable_header() = response.header();  // only the transaction has one
    return found;
  }

  absl::StatusOr<etcdserverpb::RangeResponse> ReadRange(const etcdserverpb::RangeRequest& request) {
    etcdserverpb::RangeResponse response;
    MOORING_RETURN_IF_ERROR(client_->Call("read", [&](const auto& member, grpc::ClientContext& context) {
      response.Clear();
      return etcdserverpb::KV::NewStub(member)->Range(&context, request, &response);
    }));
    MOORING_RETURN_IF_ERROR(Check(request, response));
    return response;
  }

  absl::Status Check(const etcdserverpb::RangeRequest& asked, const etcdserverpb::RangeResponse& page) const {
    const absl::Status right = CheckPage(asked, page);
    return right.ok() ? right : client_->WrongAnswer(Message(right));
  }

  absl::Status VisitAll(const etcdserverpb::RangeResponse& page, const Visitor& visit) const {
    for (const mvccpb::KeyValue& found : page.kvs()) {
      MOORING_RETURN_IF_ERROR(visit(FromEtcd(found)));
    }
    return absl::OkStatus();
  }

  // A secret whose key file was lost does not keep anybody from the records that are read with it.
  KeyValue FromEtcd(const mvccpb::KeyValue& found) const {
    KeyValue value = {.key = found.key().substr(root_.size()),
                      .value = found.value(),
                      .create_revision = found.create_revision(),
                      .modify_revision = found.mod_revision()};
    if (!IsSecret(value.key)) return value;
    const absl::StatusOr<std::string> secret =
        sealed_ ? sealed_->Unseal(value.key, found.value()) : absl::StatusOr<std::string>(NoSecretsKey(value.key));
    value.value = secret.value_or("");
    value.problem = Message(secret.status());
    return value;
  }

  absl::StatusOr<std::string> ToEtcd(const Transaction::Put& put) const {
    if (!IsSecret(put.key)) return put.value;
    if (!sealed_) return NoSecretsKey(put.key);
    return sealed_->Seal(put.key, put.value);
  }

  absl::Status NoSecretsKey(const std::string& key) const {
    return FailedPrecondition("{} is a secret, and this manager has no key file for secrets in {}: give it one",
                              Quote(key), client_->name());
  }

  absl::StatusOr<std::int64_t> DoCommit(const Transaction& transaction) override {
    MOORING_RETURN_IF_ERROR(CheckKeys(transaction));
    const EtcdLease::Current lease = lease_->Now();
    if (lease.number == 0) return lease_->Ended();
    MOORING_ASSIGN_OR_RETURN(const etcdserverpb::TxnRequest request, ToEtcd(transaction, lease));
    bool lost = false;
    etcdserverpb::TxnResponse response;
    const auto until = EtcdClient::Clock::now() + client_->Patience();
    absl::Status status = Send(request, response, lost, until);
    // The compare of a changed key lets at most one of the tries change something.
    const bool repeatable = ComparesAChange(transaction);
    for (int tries = 1; tries < kTries && lost && !status.ok() && repeatable; ++tries) {
      if (EtcdClient::Clock::now() >= until) break;
      status = Send(request, response, lost, until);
    }
    if (!status.ok()) {
      return lost ? Annotate(status, "it is not known whether the change was made") : status;
    }
    if (response.succeeded() && response.header().revision() <= 0) {
      return Annotate(client_->WrongAnswer("a change has no revision"), "it is not known whether the change was made");
    }
    if (response.succeeded()) return response.header().revision();
    if (lost) return MadeBefore(request, response);
    return Refused(transaction, lease, response);
  }

  absl::Status Send(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response, bool& lost,
                    EtcdClient::Clock::time_point until) {
    return client_->Call(
        "write",
        [&](const auto& member, grpc::ClientContext& context) {
          response.Clear();
          return etcdserverpb::KV::NewStub(member)->Txn(&context, request, &response);
        },
        &lost, until);
  }

  absl::StatusOr<etcdserverpb::TxnRequest> ToEtcd(const Transaction& transaction, EtcdLease::Current lease) const {
    etcdserverpb::TxnRequest request;
    etcdserverpb::Compare& alive = *request.add_compare();
    alive.set_target(etcdserverpb::Compare::CREATE);
    alive.set_key(lease_->key());
    alive.set_create_revision(lease.number);
    request.add_failure()->mutable_request_range()->set_key(lease_->key());
    for (const Transaction::Compare& compare : transaction.compares) {
      etcdserverpb::Compare& same = *request.add_compare();
      same.set_target(etcdserverpb::Compare::MOD);
      same.set_key(root_ + compare.key);
      same.set_mod_revision(compare.modify_revision);
      request.add_failure()->mutable_request_range()->set_key(same.key());
    }
    for (const std::string& key : transaction.deletes) {
      request.add_success()->mutable_request_delete_range()->set_key(root_ + key);
    }
    for (const Transaction::Put& put : transaction.puts) {
      etcdserverpb::PutRequest& made = *request.add_success()->mutable_request_put();
      made.set_key(root_ + put.key);
      MOORING_ASSIGN_OR_RETURN(*made.mutable_value(), ToEtcd(put));
      switch (put.ends_with) {
        case Transaction::EndsWith::kNoLease:
          break;
        case Transaction::EndsWith::kOwnLease:
          made.set_lease(lease.id);
          break;
        case Transaction::EndsWith::kItsLease:
          made.set_ignore_lease(true);
          break;
      }
    }
    return request;
  }

  static bool ComparesAChange(const Transaction& transaction) {
    return std::any_of(transaction.compares.begin(), transaction.compares.end(), [&](const auto& compare) {
      const auto has_key = [&](const auto& put) { return put.key == compare.key; };
      return std::any_of(transaction.puts.begin(), transaction.puts.end(), has_key) ||
             std::find(transaction.deletes.begin(), transaction.deletes.end(), compare.key) !=
                 transaction.deletes.end();
    });
  }

  // An earlier try, whose answer was lost, may have made the change, so that the compares do not hold any more. Gives
  // its revision if every compared key is as this change leaves it. A single key does not prove it: another host may
  // have put the same value. UNAVAILABLE: it is not known.
  absl::StatusOr<std::int64_t> MadeBefore(const etcdserverpb::TxnRequest& request,
                                          const etcdserverpb::TxnResponse& response) const {
    std::map<std::string, const mvccpb::KeyValue*> found;  // by compared key; null: it is missing
    for (int i = 0; i < request.compare_size() && i < response.responses_size(); ++i) {
      found[request.compare(i).key()] = FoundBy(response, i);
    }
    std::set<std::int64_t> revisions;
    bool made = true;
    for (const etcdserverpb::RequestOp& change : request.success()) {
      const bool puts = change.has_request_put();
      const auto now = found.find(puts ? change.request_put().key() : change.request_delete_range().key());
      if (now == found.end()) continue;  // not compared, so not read
      if (puts && now->second != nullptr) revisions.insert(now->second->mod_revision());
      made = made && (puts ? now->second != nullptr && now->second->value() == change.request_put().value()
                           : now->second == nullptr);
    }
    if (made && revisions.size() == 1) return *revisions.begin();
    return Unavailable("cannot write: {}: it is not known whether the change was made: read it again", client_->name());
  }

  absl::Status Refused(const Transaction& transaction, EtcdLease::Current lease,
                       const etcdserverpb::TxnResponse& response) {
    const mvccpb::KeyValue* const alive = FoundBy(response, 0);
    if (alive == nullptr || alive->create_revision() != lease.number) {
      lease_->HasEnded(lease.number);
      return lease_->Ended();
    }
    for (std::size_t i = 0; i < transaction.compares.size(); ++i) {
      const mvccpb::KeyValue* const found = FoundBy(response, static_cast<int>(i) + 1);
      MOORING_RETURN_IF_ERROR(CheckRevision(transaction.compares[i], found == nullptr ? 0 : found->mod_revision()));
    }
    return Internal("{} refused a change whose conditions hold", client_->name());
  }

  const std::shared_ptr<EtcdClient> client_;
  const std::string root_;  // in front of all keys
  const std::unique_ptr<EtcdLease> lease_;
  const std::optional<SealedValues> sealed_;
  const std::shared_ptr<EtcdWatches> watches_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<State>> OpenEtcdState(const EtcdSettings& settings) {
  if (settings.prefix.empty() || settings.host.empty() || settings.id.empty() ||
      settings.id.find(' ') != std::string::npos || settings.lease_ttl < std::chrono::seconds(1)) {
    return InvalidArgument("etcd needs a prefix, a host name, an id without spaces, and a lease of at least 1 s");
  }
  std::optional<SealedValues> sealed;
  if (!settings.secrets_key_file.empty()) {
    MOORING_ASSIGN_OR_RETURN(sealed, SealedValues::Open(settings.secrets_key_file));
  }
  MOORING_ASSIGN_OR_RETURN(std::shared_ptr<EtcdClient> client, EtcdClient::Open(settings.connection));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<EtcdLease> lease,
                           EtcdLease::Take(client, {.host = settings.host,
                                                    .id = settings.id,
                                                    .key = settings.prefix + LiveKey(settings.host),
                                                    .cluster_key = settings.prefix + ClusterKey(),
                                                    .cluster = settings.cluster,
                                                    .ttl = settings.lease_ttl}));
  return std::make_unique<EtcdState>(std::move(client), settings.prefix, std::move(lease), std::move(sealed));
}

}  // namespace mooring::manager
