#include "manager/requests/request_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "base/status.h"
#include "base/text/clean_text.h"
#include "base/text/quote.h"
#include "manager/csi/csi_channel.h"
#include "manager/state/keys.h"
#include "rpc/redact.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kNextTake{1};  // after a request could not be taken
constexpr std::chrono::seconds kPick{1};      // for a local controller
constexpr std::chrono::milliseconds kFirstAnswerPause{100};
constexpr std::chrono::seconds kLongestAnswerPause{2};

Clock::duration RandomUpTo(Clock::duration most) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return Clock::duration(std::uniform_int_distribution<Clock::rep>(0, std::max<Clock::rep>(most.count(), 0))(random));
}

v1::ControllerAnswer AnswerWith(const std::string& host, const absl::Status& status) {
  v1::ControllerAnswer answer;
  answer.set_host(host);
  answer.set_code(static_cast<int>(status.code()));
  if (!status.ok()) answer.set_message(CleanText(Message(status)));
  return answer;
}

Transaction DeleteOf(const std::string& id, std::int64_t worker_revision) {
  Transaction transaction;
  transaction.compares.push_back({RequestWorkerKey(id), worker_revision});
  transaction.deletes.push_back(RequestWorkerKey(id));
  return transaction;
}

ControllerFor ControllerOf(const v1::ControllerRequest& request) {
  ControllerFor controller(request.plugin());
  for (const v1::Topology& topology : request.reaches()) {
    controller.reaches.push_back({StringMap(topology.segments().begin(), topology.segments().end())});
  }
  controller.refused_by.assign(request.refused_by().begin(), request.refused_by().end());
  return controller;
}

}  // namespace

RequestWorker::RequestWorker(State& shared, PluginDirectory& local, ControllerOffers& offers, RequestTable& table,
                             Events& events, WorkQueue& queue, std::string host, const Settings& settings)
    : shared_(shared),
      local_(local),
      offers_(offers),
      table_(table),
      events_(events),
      host_(std::move(host)),
      settings_(settings),
      deletes_(shared, queue),
      work_(queue, {.kind = "request", .width = settings.width}) {}

void RequestWorker::Stop() {
  BeginStop();
  work_.Stop();
  deletes_.Stop();
}

RequestWorker::Counts RequestWorker::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

void RequestWorker::Schedule() {
  for (const OpenRequest& request : table_.Open()) {
    const std::string plugin = request.record->plugin();
    if (request.expires <= Clock::now() || !offers_.IsOfferedHere(ControllerOf(*request.record))) continue;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!queued_.insert(request.id).second) continue;
    }
    ServeAfter(DelayFor(request), request.id, plugin, false);
  }
}

Clock::duration RequestWorker::DelayFor(const OpenRequest& request) const {
  const std::string& preferred = request.record->preferred_host();
  if (request.was_taken || !offers_.IsOfferedBy(request.record->plugin(), preferred)) {
    return RandomUpTo(settings_.spread);
  }
  if (preferred == host_) return {};
  return settings_.head_start + RandomUpTo(settings_.head_start);
}

void RequestWorker::Forget(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queued_.erase(id);
}

void RequestWorker::Serve(const std::string& id, const std::string& plugin, bool in_doubt) {
  if (stop_.stop_requested()) return;
  if (in_doubt && !DeleteOwnKey(id).ok()) return ServeLater(id, plugin, in_doubt);
  const std::optional<OpenRequest> request = table_.FindOpen(id);
  if (!request || request->expires <= Clock::now() || !offers_.IsOfferedHere(ControllerOf(*request->record)))
    return Forget(id);
  const absl::StatusOr<Taken> taken = Take(*request);
  if (!taken.ok()) return ServeLater(id, plugin, !absl::IsAborted(taken.status()));
  NoteTaken(*request);
  absl::StatusOr<v1::ControllerAnswer> answer = Work(*request, *taken);
  if (answer.ok()) {
    const absl::Status answered = Answer(*request, *taken, *answer);
    if (!answered.ok()) answer = answered;
  }
  if (!answer.ok()) GiveBack(*request, *taken);
  NoteOutcome(*request, answer);
  Forget(id);
  Schedule();  // it may be open again
}

// Until then, the table shows who has taken the request, or the state is back.
void RequestWorker::ServeLater(const std::string& id, const std::string& plugin, bool in_doubt) {
  ServeAfter(kNextTake + RandomUpTo(kNextTake), id, plugin, in_doubt);
}

void RequestWorker::ServeAfter(Clock::duration delay, const std::string& id, const std::string& plugin, bool in_doubt) {
  const auto attempt = [this, id, plugin, in_doubt] {
    Serve(id, plugin, in_doubt);
    return absl::OkStatus();  // it has pushed what is left
  };
  work_.Push({.key = id, .lane = plugin, .attempt = attempt}, delay);
}

// After a commit of Take whose outcome is not known. Otherwise the key would keep the request from all hosts.
absl::Status RequestWorker::DeleteOwnKey(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, shared_.Get(RequestWorkerKey(id)));
  v1::ControllerRequestWorker worker;
  if (!stored || !worker.ParseFromString(stored->value) || worker.host() != host_) return absl::OkStatus();
  return shared_.Commit(DeleteOf(id, stored->modify_revision)).status();
}

// The number is read before the commit, so that a lease that ends in between is noticed before the call.
absl::StatusOr<RequestWorker::Taken> RequestWorker::Take(const OpenRequest& request) {
  Taken taken{.revision = 0, .lease_number = shared_.lease().Number()};
  v1::ControllerRequestWorker worker;
  worker.set_host(host_);
  Transaction take;
  take.compares = {{RequestStateKey(request.id), request.revision}, {RequestWorkerKey(request.id), 0}};
  take.puts.push_back({RequestWorkerKey(request.id), worker.SerializeAsString(), Transaction::EndsWith::kOwnLease});
  MOORING_ASSIGN_OR_RETURN(taken.revision, shared_.Commit(take));
  return taken;
}

absl::Status RequestWorker::CheckLease(const Taken& taken) {
  Lease& lease = shared_.lease();
  if (lease.Number() == taken.lease_number && lease.ValidUntil() > Clock::now()) return absl::OkStatus();
  return Unavailable("the lease of host {} may have ended", Quote(host_));
}

// UNAVAILABLE: try again. NOT_FOUND: the requester has given up. Other errors are for the requester.
absl::StatusOr<CsiMessages> RequestWorker::Read(const OpenRequest& request) {
  MOORING_ASSIGN_OR_RETURN(CsiMessages messages, MessagesOf(request.record->method()));
  std::string bytes = request.record->request();
  if (request.record->has_secrets()) {
    const auto secrets = shared_.Get(RequestSecretsKey(request.id));
    if (!secrets.ok()) {
      return Annotate(secrets.status(), fmt::format("host {} cannot read the secrets of the request", Quote(host_)));
    }
    if (!*secrets) return NotFound("the request was deleted");
    bytes = (**secrets).value;
  }
  if (messages.request->ParseFromString(bytes)) return messages;
  return InvalidArgument("host {} cannot read the request to {}", Quote(host_), CallName(request.record->method()));
}

// Gives the answer of the plugin, also if it is an error. An error here: the call was not made, or the stop of this
// manager has ended it, so the request is left to others.
absl::StatusOr<v1::ControllerAnswer> RequestWorker::Work(const OpenRequest& request, const Taken& taken) {
  const absl::StatusOr<CsiMessages> messages = Read(request);
  if (absl::IsUnavailable(messages.status()) || absl::IsNotFound(messages.status())) return messages.status();
  if (!messages.ok()) return AnswerWith(host_, messages.status());
  const Clock::time_point pick_until = std::min(request.expires, Clock::now() + kPick);
  const absl::StatusOr<ReadyPlugin> controller = local_.PickController(request.record->plugin(), pick_until);
  if (!controller.ok()) {
    offers_.Refresh();
    return controller.status();
  }
  if (request.expires <= Clock::now()) return absl::DeadlineExceededError("the request has expired");
  MOORING_RETURN_IF_ERROR(CheckLease(taken));
  absl::Status status =
      controller->channel->Call(request.record->method(), *messages->request, *messages->response, request.expires);
  if (absl::IsCancelled(status)) {
    if (stop_.stop_requested()) return Stopping();
    status = WithCode(absl::StatusCode::kUnavailable, status);  // the instance was replaced
  }
  if (status.ok()) status = CheckSize("answer", CallName(request.record->method()), *messages->response);
  if (!status.ok()) {
    const std::string cause = WithoutSecretsOf(*messages->request, Message(status), Reader::kCaller);
    return AnswerWith(host_, absl::Status(status.code(), cause));
  }
  v1::ControllerAnswer answer = AnswerWith(host_, status);
  answer.set_response(messages->response->SerializeAsString());
  return answer;
}

// The answer is worth more tries until the requester's deadline, because the call is made already.
absl::Status RequestWorker::Answer(const OpenRequest& request, const Taken& taken, const v1::ControllerAnswer& answer) {
  v1::ControllerRequest record = *request.record;
  *record.mutable_answer() = answer;
  record.clear_request();
  Transaction commit;
  commit.compares = {{RequestStateKey(request.id), request.revision}, {RequestWorkerKey(request.id), taken.revision}};
  commit.puts.push_back({RequestStateKey(request.id), record.SerializeAsString(), Transaction::EndsWith::kItsLease});
  commit.deletes.push_back(RequestWorkerKey(request.id));
  BackOff pause(kFirstAnswerPause, kLongestAnswerPause);
  for (;;) {
    const absl::Status status = shared_.Commit(commit).status();
    if (status.ok() || !MayPass(status)) return status;
    const bool same_lease = shared_.lease().Number() == taken.lease_number;
    if (stop_.stop_requested() || !same_lease || Clock::now() >= request.expires) return status;
    pause.Fail();
    SleepUntil(stop_.get_token(), pause.next_try());
  }
}

void RequestWorker::GiveBack(const OpenRequest& request, const Taken& taken) {
  deletes_.Make(DeleteOf(request.id, taken.revision));
}

void RequestWorker::NoteTaken(const OpenRequest& request) {
  const v1::ControllerRequest& record = *request.record;
  if (request.was_taken) {
    events_.Add({.kind = "controller",
                 .plugin = record.plugin(),
                 .text = fmt::format("{} for host {} is called again, because the host that called it is gone",
                                     CallName(record.method()), Quote(record.requester()))});
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (request.was_taken) ++counts_.retaken;
  ++counts_.under_way[record.requester()];
}

void RequestWorker::NoteOutcome(const OpenRequest& request, const absl::StatusOr<v1::ControllerAnswer>& answered) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto under_way = counts_.under_way.find(request.record->requester());
  if (--under_way->second == 0) counts_.under_way.erase(under_way);
  if (!answered.ok()) {
    ++counts_.dropped;
  } else if (answered->code() == 0) {
    ++counts_.answered;
  } else {
    ++counts_.failed;
  }
}

}  // namespace mooring::manager
