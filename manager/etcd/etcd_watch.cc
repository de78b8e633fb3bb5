#include "manager/etcd/etcd_watch.h"

#include <etcd.grpc.pb.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <thread>
#include <utility>

#include "base/status.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMost = 100'000;  // changes that wait for a reader
constexpr std::chrono::milliseconds kReconnectPause{100};

}  // namespace

class EtcdWatches::One final : public Watch {
 public:
  One(std::shared_ptr<EtcdWatches> watches, const std::string& prefix, std::int64_t from)
      : watches_(std::move(watches)), prefix_(watches_->root_ + prefix), next_(from) {}

  ~One() override {
    {
      const std::lock_guard<std::mutex> lock(watches_->mutex_);
      watches_->open_.erase(this);
    }
    End(absl::CancelledError("the watch is closed"));
  }

  void Run() {
    thread_ = std::jthread([this] { Follow(); });
  }

  // Ends the thread soon; changes that wait are dropped.
  void End(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ended_.ok()) return;
    ended_ = status;
    if (call_ != nullptr) call_->TryCancel();
    changed_.notify_all();
  }

  absl::StatusOr<std::vector<Change>> Next(Clock::time_point until) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, until, [&] { return !ended_.ok() || !waiting_.empty(); });
    if (!ended_.ok()) return ended_;
    return std::exchange(waiting_, {});
  }

 private:
  bool Ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !ended_.ok();
  }

  void Follow() {
    for (std::size_t member = 0; !Ended(); ++member) {
      FollowMember(member);
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, kReconnectPause, [&] { return !ended_.ok(); });
    }
  }

  void FollowMember(std::size_t member) {
    grpc::ClientContext context;
    const auto channel = watches_->client_->Prepare(member, context);
    if (!channel.ok()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!ended_.ok()) return;
      call_ = &context;
    }
    const auto stream = etcdserverpb::Watch::NewStub(*channel)->Watch(&context);
    if (stream->Write(Request())) {
      etcdserverpb::WatchResponse response;
      while (stream->Read(&response) && Take(response)) response.Clear();
    }
    context.TryCancel();
    (void)stream->Finish();
    const std::lock_guard<std::mutex> lock(mutex_);
    call_ = nullptr;
  }

  etcdserverpb::WatchRequest Request() const {
    etcdserverpb::WatchRequest request;
    etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
    create.set_key(prefix_);
    create.set_range_end(EndOfPrefix(prefix_));
    create.set_start_revision(next_);
    create.set_progress_notify(true);
    create.set_prev_kv(true);
    return request;
  }

  // Gives whether the stream goes on.
  bool Take(const etcdserverpb::WatchResponse& response) {
    if (response.compact_revision() != 0) {
      End(OutOfRange("revision {} is not kept any more, the oldest is {}: list again, and watch from there", next_,
                     response.compact_revision()));
      return false;
    }
    if (response.canceled()) return false;
    std::vector<Change> changes;
    for (const mvccpb::Event& event : response.events()) {
      if (event.kv().mod_revision() < next_) continue;                                          // given already
      if (!event.kv().key().starts_with(prefix_)) continue;                                     // not asked for
      if (event.kv().mod_revision() == std::numeric_limits<std::int64_t>::max()) return false;  // no etcd gives it
      if (event.type() == mvccpb::Event::DELETE && !event.has_prev_kv()) {
        End(OutOfRange(
            "the value of a key deleted in revision {} is not kept any more: list again, and watch from there",
            event.kv().mod_revision()));
        return false;
      }
      changes.push_back(ToChange(event));
    }
    // An answer has whole revisions. The revision of a progress notice may be given again: its changes are dropped
    // then.
    if (!changes.empty()) {
      next_ = changes.back().value.modify_revision + 1;
    } else if (!response.created()) {
      next_ = std::max(next_, response.header().revision());
    }
    return Append(std::move(changes));
  }

  Change ToChange(const mvccpb::Event& event) const {
    const bool deleted = event.type() == mvccpb::Event::DELETE;
    const mvccpb::KeyValue& value = deleted ? event.prev_kv() : event.kv();
    Change change = {.kind = deleted ? Change::Kind::kDelete : Change::Kind::kPut,
                     .value = {.key = event.kv().key().substr(watches_->root_.size()),
                               .value = value.value(),
                               .create_revision = value.create_revision(),
                               .modify_revision = event.kv().mod_revision()}};
    if (IsSecret(change.value.key)) change.value.value = {};
    return change;
  }

  bool Append(std::vector<Change> changes) {
    if (changes.empty()) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ended_.ok()) return false;
    if (waiting_.size() + changes.size() > kMost) {
      ended_ = OutOfRange("more than {} changes wait to be read: list again, and watch from there", kMost);
      waiting_.clear();
    }
    std::move(changes.begin(), changes.end(), std::back_inserter(waiting_));
    changed_.notify_all();
    return ended_.ok();
  }

  const std::shared_ptr<EtcdWatches> watches_;
  const std::string prefix_;
  std::int64_t next_;  // revision; used by the thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Change> waiting_;          // under mutex_
  absl::Status ended_;                   // under mutex_
  grpc::ClientContext* call_ = nullptr;  // under mutex_
  std::jthread thread_;                  // last: it ends before the rest
};

std::unique_ptr<Watch> EtcdWatches::Start(const std::string& prefix, std::int64_t from) {
  auto watch = std::make_unique<One>(shared_from_this(), prefix, from);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) {
    watch->End(absl::CancelledError("the manager is stopping"));
  } else {
    open_.insert(watch.get());
    watch->Run();
  }
  return watch;
}

void EtcdWatches::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  for (One* const watch : open_) watch->End(absl::CancelledError("the manager is stopping"));
}

std::string EndOfPrefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xFF') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // to the last key
  ++prefix.back();
  return prefix;
}

}  // namespace mooring::manager
