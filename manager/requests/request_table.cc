#include "manager/requests/request_table.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "csi.pb.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // etcd takes 1.5 MB in a transaction
constexpr std::string_view kController = "/csi.v1.Controller/";

std::unique_ptr<google::protobuf::Message> New(const google::protobuf::Descriptor& type) {
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
}

std::string IdIn(const std::string& key, const std::string& prefix) { return key.substr(prefix.size()); }

std::string HostIn(const KeyValue& stored) {
  v1::ControllerRequestWorker worker;
  return worker.ParseFromString(stored.value) ? worker.host() : "";
}

}  // namespace

std::string_view CallName(std::string_view method) { return method.substr(method.rfind('/') + 1); }

absl::StatusOr<CsiMessages> MessagesOf(const std::string& method) {
  const auto* const service = csi::v1::CreateVolumeRequest::descriptor()->file()->FindServiceByName("Controller");
  const auto* const found =
      method.starts_with(kController) ? service->FindMethodByName(method.substr(kController.size())) : nullptr;
  if (found == nullptr) return Unimplemented("{} is not a call of a controller that this host knows", Quote(method));
  return CsiMessages{New(*found->input_type()), New(*found->output_type())};
}

absl::Status CheckSize(std::string_view kind, std::string_view call, const google::protobuf::Message& message) {
  const std::size_t size = message.ByteSizeLong();
  if (size <= kMostBytes) return absl::OkStatus();
  return FailedPrecondition("the {} of {} has {} bytes, more than the {} that hosts can send to each other", kind, call,
                            size, kMostBytes);
}

void OwedDeletes::Make(const Transaction& deletes) {
  const bool may_try = shared_.lease().ValidUntil() > Clock::now();
  if (!may_try || !Try(deletes).ok()) MakeLater(deletes);
}

void OwedDeletes::MakeLater(const Transaction& deletes) {
  work_.Push({.key = deletes.deletes.front(), .attempt = [this, deletes] { return Try(deletes); }},
             std::chrono::milliseconds(200));
}

// ABORTED: a compare does not hold, so others have the key by now.
absl::Status OwedDeletes::Try(const Transaction& deletes) {
  absl::Status status = shared_.Commit(deletes).status();
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

RequestTable::RequestTable(State& shared, WorkQueue& queue, const KeyFollower::Settings& settings)
    : requests_follower_(shared, queue, RequestsPrefix(),
                         {.listed = [this](const Listing& all) { RequestsListed(all); },
                          .changed = [this](const std::vector<Change>& changes) { RequestsChanged(changes); }},
                         settings),
      workers_follower_(shared, queue, RequestWorkersPrefix(),
                        {.listed = [this](const Listing& all) { WorkersListed(all); },
                         .changed = [this](const std::vector<Change>& changes) { WorkersChanged(changes); }},
                        settings) {}

void RequestTable::BeginStop() {
  stopping_ = true;
  Wake();
  requests_follower_.BeginStop();
  workers_follower_.BeginStop();
}

void RequestTable::Stop() {
  BeginStop();
  requests_follower_.Stop();
  workers_follower_.Stop();
}

void RequestTable::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  wake_.notify_all();
}

void RequestTable::OnChange(std::function<void()> changed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_ = std::move(changed);
}

void RequestTable::Tell() {
  std::function<void()> changed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
    changed = changed_;
  }
  if (changed) changed();
}

Clock::time_point RequestTable::LastProgress() const {
  return std::min(requests_follower_.LastProgress(), workers_follower_.LastProgress());
}

// A request keeps the time at which it expires when its record changes, or is listed again.
void RequestTable::Store(std::map<std::string, Entry>& entries, const KeyValue& stored) const {
  const std::string id = IdIn(stored.key, RequestsPrefix());
  auto record = std::make_shared<v1::ControllerRequest>();
  if (RequestStateKey(id) != stored.key || !record->ParseFromString(stored.value)) {
    log::Warning("a controller request in the shared state is damaged, and is ignored", {{"key", stored.key}});
    return;
  }
  const auto known = requests_.find(id);
  Entry entry{.record = record,
              .revision = stored.modify_revision,
              .expires = Clock::now() + std::chrono::milliseconds(record->time_left_ms())};
  if (known != requests_.end()) entry.expires = known->second.expires;
  entries[id] = std::move(entry);
}

void RequestTable::RequestsListed(const Listing& all) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::map<std::string, Entry> now;
    for (const KeyValue& stored : all.values) Store(now, stored);
    requests_ = std::move(now);
    revision_ = all.revision;
    std::erase_if(left_, [this](const std::string& id) { return !requests_.contains(id); });
  }
  Tell();
}

void RequestTable::RequestsChanged(const std::vector<Change>& changes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Change& change : changes) {
      revision_ = std::max(revision_, change.value.modify_revision);
      if (change.kind == Change::Kind::kPut) {
        Store(requests_, change.value);
      } else {
        const std::string id = IdIn(change.value.key, RequestsPrefix());
        requests_.erase(id);
        left_.erase(id);
      }
    }
  }
  Tell();
}

void RequestTable::WorkersListed(const Listing& all) {
  Workers now;
  for (const KeyValue& stored : all.values) now[IdIn(stored.key, RequestWorkersPrefix())] = HostIn(stored);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [id, host] : workers_) {
      if (!now.contains(id)) left_.insert(id);
    }
    workers_ = std::move(now);
  }
  Tell();
}

void RequestTable::WorkersChanged(const std::vector<Change>& changes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Change& change : changes) {
      const std::string id = IdIn(change.value.key, RequestWorkersPrefix());
      if (change.kind == Change::Kind::kPut) {
        workers_[id] = HostIn(change.value);
      } else {
        workers_.erase(id);
        left_.insert(id);
      }
    }
  }
  Tell();
}

bool RequestTable::IsOpen(const std::string& id, const Entry& entry) const {
  return !entry.record->has_answer() && !workers_.contains(id);
}

OpenRequest RequestTable::ToOpen(const std::string& id, const Entry& entry) const {
  return {.id = id,
          .record = entry.record,
          .revision = entry.revision,
          .expires = entry.expires,
          .was_taken = left_.contains(id)};
}

std::vector<OpenRequest> RequestTable::Open() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<OpenRequest> open;
  for (const auto& [id, entry] : requests_) {
    if (IsOpen(id, entry)) open.push_back(ToOpen(id, entry));
  }
  return open;
}

std::optional<OpenRequest> RequestTable::FindOpen(const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = requests_.find(id);
  if (found == requests_.end() || !IsOpen(id, found->second)) return std::nullopt;
  return ToOpen(id, found->second);
}

RequestTable::Progress RequestTable::Look(const std::string& id, std::int64_t revision) const {
  Progress progress;
  if (const auto worker = workers_.find(id); worker != workers_.end()) progress.worker = worker->second;
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    progress.deleted = revision_ >= revision;
  } else if (found->second.record->has_answer()) {
    progress.answered = found->second.record;
  }
  return progress;
}

RequestTable::Progress RequestTable::Wait(const std::string& id, std::int64_t revision,
                                          const std::function<bool()>& ended, Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  Progress progress;
  wake_.wait_until(lock, until, [&] {
    progress = Look(id, revision);
    return progress.answered != nullptr || progress.deleted || stopping_ || ended();
  });
  return progress;
}

}  // namespace mooring::manager
