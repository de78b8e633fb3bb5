#include "manager/requests/request_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"
#include "rpc/redact.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kLookAtOffers{500};
constexpr std::chrono::hours kLongest{1};  // for a call without a deadline

std::int64_t MsLeft(Clock::time_point until) {
  const Clock::duration longest = kLongest;
  const Clock::time_point now = Clock::now();
  const Clock::duration left = until - now > longest ? longest : until - now;
  return std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count(), 0);
}

Transaction DeletesOf(const std::string& id) {
  Transaction deletes;
  deletes.deletes = {RequestStateKey(id), RequestSecretsKey(id)};
  return deletes;
}

// The compare lets the store repeat a commit whose answer is lost.
Transaction PutsOf(const std::string& id, v1::ControllerRequest record, const google::protobuf::Message& request) {
  Transaction puts;
  puts.compares.push_back({RequestStateKey(id), 0});
  record.set_has_secrets(HasSecrets(request));
  if (record.has_secrets()) {
    puts.puts.push_back({RequestSecretsKey(id), request.SerializeAsString(), Transaction::EndsWith::kOwnLease});
  } else {
    record.set_request(request.SerializeAsString());
  }
  puts.puts.push_back({RequestStateKey(id), record.SerializeAsString(), Transaction::EndsWith::kOwnLease});
  return puts;
}

// The codes of the state must not be taken for those of the plugin: RESOURCE_EXHAUSTED would mean that it has no room.
absl::Status ExplainCommit(const absl::Status& status) {
  if (absl::IsCancelled(status)) return status;
  if (absl::IsFailedPrecondition(status)) {
    return Annotate(status, "the call has secrets, and cannot be sent to another host");
  }
  return Annotate(WithCode(absl::StatusCode::kUnavailable, status), "the call cannot be sent to another host");
}

absl::Status StatusOf(const v1::ControllerAnswer& answer) {
  if (answer.code() == 0) return absl::OkStatus();
  const bool known = answer.code() > 0 && answer.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  const auto code = known ? static_cast<absl::StatusCode>(answer.code()) : absl::StatusCode::kUnknown;
  return absl::Status(code == absl::StatusCode::kCancelled ? absl::StatusCode::kUnavailable : code, answer.message());
}

}  // namespace

// A call that waits, for the counts.
class RequestSender::Waiting {
 public:
  Waiting(RequestSender& sender, std::string id, const std::string& host) : sender_(sender), id_(std::move(id)) {
    const std::lock_guard<std::mutex> lock(sender_.mutex_);
    sender_.waiting_[id_] = {host, Clock::now()};
  }
  ~Waiting() {
    const std::lock_guard<std::mutex> lock(sender_.mutex_);
    sender_.waiting_.erase(id_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  RequestSender& sender_;
  const std::string id_;
};

RequestSender::RequestSender(State& shared, ControllerOffers& offers, RequestTable& table, WorkQueue& queue,
                             std::string host, const Settings& settings)
    : shared_(shared),
      offers_(offers),
      table_(table),
      host_(std::move(host)),
      settings_(settings),
      deletes_(shared, queue) {}

absl::Status RequestSender::Call(const Target& target, const std::string& method,
                                 const google::protobuf::Message& request, google::protobuf::Message& response,
                                 Clock::time_point until, const std::atomic<bool>& closed) {
  if (table_.stopping()) return Stopping();
  const std::string_view call = CallName(method);
  MOORING_RETURN_IF_ERROR(CheckSize("request", call, request));
  const std::string id = RandomHex(16);
  v1::ControllerRequest record;
  record.set_plugin(target.controller.plugin);
  for (const Topology& topology : target.controller.reaches) {
    record.add_reaches()->mutable_segments()->insert(topology.segments.begin(), topology.segments.end());
  }
  record.mutable_refused_by()->Add(target.controller.refused_by.begin(), target.controller.refused_by.end());
  record.set_method(method);
  record.set_requester(host_);
  record.set_preferred_host(target.preferred);
  record.set_time_left_ms(MsLeft(until));
  const Waiting waiting(*this, id, target.preferred);
  const absl::StatusOr<std::int64_t> revision = shared_.Commit(PutsOf(id, std::move(record), request));
  absl::StatusOr<v1::ControllerAnswer> answer =
      revision.ok() ? Await(target, call, id, *revision, until, closed) : ExplainCommit(revision.status());
  if (revision.ok()) {
    deletes_.Make(DeletesOf(id));
  } else if (!absl::IsFailedPrecondition(revision.status())) {
    deletes_.MakeLater(DeletesOf(id));  // the commit may have been made
  }
  Count(answer.status());
  MOORING_RETURN_IF_ERROR(answer.status());
  MOORING_RETURN_IF_ERROR(StatusOf(*answer));
  if (response.ParseFromString(answer->response())) return absl::OkStatus();
  return Internal("host {} gave an answer to {} that cannot be read", Quote(answer->host()), call);
}

absl::StatusOr<v1::ControllerAnswer> RequestSender::Await(const Target& target, std::string_view call,
                                                          const std::string& id, std::int64_t revision,
                                                          Clock::time_point until, const std::atomic<bool>& closed) {
  Clock::time_point offered_at = Clock::now();
  std::string worker;  // the last one: it leaves the request at the deadline, too
  for (;;) {
    const Clock::time_point look = std::min(until, Clock::now() + kLookAtOffers);
    const RequestTable::Progress progress = table_.Wait(
        id, revision, [&] { return closed.load(); }, look);
    if (progress.answered != nullptr) return progress.answered->answer();
    if (table_.stopping()) return Stopping();
    if (closed) return absl::CancelledError("the connection to the plugin on another host was closed");
    if (progress.deleted) {
      return Unavailable("the lease of this host ended while it waited for {} on another host: call again", call);
    }
    if (!progress.worker.empty()) worker = progress.worker;
    const Clock::time_point now = Clock::now();
    if (now >= until) {
      return absl::DeadlineExceededError(
          worker.empty()
              ? fmt::format("no host has begun {} in time; host {} was asked to", call, Quote(target.preferred))
              : fmt::format("no answer in time to {} from host {}", call, Quote(worker)));
    }
    if (!progress.worker.empty()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_[id].host = progress.worker;
    }
    if (!progress.worker.empty() || !offers_.OfOthers(target.controller).empty()) offered_at = now;
    if (now - offered_at > settings_.patience) {
      return Unavailable("no other host has a healthy controller of plugin {} any more",
                         Quote(target.controller.plugin));
    }
  }
}

void RequestSender::Count(const absl::Status& outcome) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++(outcome.ok() ? counts_.answered : counts_.failed);
}

RequestSender::Counts RequestSender::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Counts counts = counts_;
  const Clock::time_point now = Clock::now();
  for (const auto& [id, open] : waiting_) {
    Counts::Waiting& at_host = counts.waiting[open.host];
    ++at_host.count;
    at_host.longest = std::max(at_host.longest, now - open.since);
  }
  return counts;
}

}  // namespace mooring::manager
