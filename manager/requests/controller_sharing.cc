#include "manager/requests/controller_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kLookAtOthers{200};
constexpr std::size_t kMostHosts = 8;  // that are asked in one call

struct Refusal {
  std::string host;
  absl::Status status;
};

// All instances of a plugin have the same calls. An error that may come half-way is final: CSI demands OK for a delete
// from a host that does not know the volume.
bool MayOthersDoIt(const absl::Status& status) {
  return (IsRefusal(status) || absl::IsNotFound(status)) && !absl::IsUnimplemented(status);
}

// An error that may come half-way must not be hidden by a refusal, nor a refusal by NOT_FOUND, which a caller may take
// for success.
int Weight(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 0;
  return IsRefusal(status) ? 1 : 2;
}

absl::Status Summarize(const std::vector<Refusal>& refusals) {
  const auto heaviest = std::max_element(refusals.begin(), refusals.end(), [](const Refusal& a, const Refusal& b) {
    return Weight(a.status) < Weight(b.status);
  });
  const bool all_say_the_same = std::all_of(refusals.begin(), refusals.end(), [&](const Refusal& refusal) {
    return refusal.status.message() == heaviest->status.message();
  });
  if (all_say_the_same) return heaviest->status;
  std::string all;
  for (const Refusal& refusal : refusals) {
    all += fmt::format("{}on host {}: {}", all.empty() ? "" : "; ", Quote(refusal.host), Message(refusal.status));
  }
  return absl::Status(heaviest->status.code(), all);
}

// A channel to the controller of `host`, and then to those of other hosts that may do what it refuses.
class SharedController final : public CsiChannel {
 public:
  // `local`: the channel to the controller, if `host` is this one; else null. The references outlive the channel.
  SharedController(ControllerOffers& offers, RequestSender& sender, RequestTable& table, ControllerFor controller,
                   std::string host, std::shared_ptr<CsiChannel> local)
      : offers_(offers),
        sender_(sender),
        table_(table),
        controller_(std::move(controller)),
        host_(std::move(host)),
        local_(std::move(local)) {}

  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until) override {
    const auto call_at = [&](const ControllerFor& controller, const std::string& host) {
      if (closed_) return absl::CancelledError("the connection to the plugin on another host was closed");
      return sender_.Call({controller, host}, method, request, response, until, closed_);
    };
    std::vector<Refusal> refusals = {
        {host_, local_ ? local_->Call(method, request, response, until) : call_at(controller_, host_)}};
    ControllerFor next = controller_;
    while (next.is_known && MayOthersDoIt(refusals.back().status)) {
      next.refused_by.push_back(refusals.back().host);
      const std::optional<ControllerOffer> offer = offers_.NextOfOthers(next);
      if (!offer || refusals.size() == kMostHosts || Clock::now() >= until) return Summarize(refusals);
      refusals.push_back({offer->host, call_at(next, offer->host)});
    }
    return refusals.back().status;
  }

  void Close() override {
    closed_ = true;
    if (local_) local_->Close();
    table_.Wake();
  }

 private:
  ControllerOffers& offers_;
  RequestSender& sender_;
  RequestTable& table_;
  const ControllerFor controller_;
  const std::string host_;
  const std::shared_ptr<CsiChannel> local_;
  std::atomic<bool> closed_ = false;
};

void AddOffer(const ControllerOffer& offer, PluginStatus& status) {
  status.name = offer.plugin;
  ++status.controllers.healthy;
  ++status.controllers.expected;
  status.controller_required |= offer.fingerprint.traits.controller_service;
  status.instances.push_back({.instance = InstanceOf(offer), .front = false, .fingerprint = offer.fingerprint});
}

}  // namespace

absl::StatusOr<ReadyPlugin> ClusterPlugins::PickController(const ControllerFor& call, Clock::time_point until) {
  const auto shared = [&](const std::string& host, std::shared_ptr<CsiChannel> local) {
    return std::make_shared<SharedController>(offers_, sender_, table_, call, host, std::move(local));
  };
  Clock::time_point wait_until = Clock::now();  // at first, the local directory does not wait
  for (;;) {
    absl::StatusOr<ReadyPlugin> local = PickLocal(call, wait_until);
    if (local.ok() && call.is_known) local->channel = shared(offers_.host(), std::move(local->channel));
    if (!absl::IsUnavailable(local.status())) return local;
    if (table_.stopping()) return Stopping();
    if (std::optional<ControllerOffer> offer = offers_.NextOfOthers(call)) {
      return ReadyPlugin{InstanceOf(*offer), std::move(offer->fingerprint), shared(offer->host, nullptr)};
    }
    const Clock::time_point now = Clock::now();
    if (now >= until) {
      return absl::Status(local.status().code(),
                          fmt::format("{}; and no other host offers a controller of it", Message(local.status())));
    }
    wait_until = std::min(until, now + kLookAtOthers);
  }
}

absl::StatusOr<ReadyPlugin> ClusterPlugins::PickLocal(const ControllerFor& call, Clock::time_point until) {
  const auto status = call.reaches.empty() ? absl::StatusOr<PluginStatus>(PluginStatus()) : local_.Find(call.plugin);
  const bool reaches = !status.ok() || (IsTopologyKnown(*status) && IsReachable(call.reaches, NodeTopology(*status)));
  if (reaches) return local_.PickController(call, until);
  SleepUntil({}, until);
  return Unavailable("plugin {} on this host cannot reach the volume", Quote(call.plugin));
}

absl::StatusOr<PluginStatus> ClusterPlugins::Find(const std::string& plugin) {
  absl::StatusOr<PluginStatus> local = local_.Find(plugin);
  const std::vector<ControllerOffer> offers = offers_.OfOthers(plugin);
  if (absl::IsNotFound(local.status()) && !offers.empty()) local = PluginStatus();
  if (!local.ok()) return local;
  for (const ControllerOffer& offer : offers) AddOffer(offer, *local);
  return local;
}

std::vector<PluginStatus> ClusterPlugins::List() {
  std::map<std::string, PluginStatus> all;
  for (PluginStatus& status : local_.List()) {
    const std::string name = status.name;
    all[name] = std::move(status);
  }
  for (const ControllerOffer& offer : offers_.OfOthers()) AddOffer(offer, all[offer.plugin]);
  std::vector<PluginStatus> sorted;
  for (auto& [name, status] : all) sorted.push_back(std::move(status));
  return sorted;
}

ControllerSharing::ControllerSharing(State& shared, PluginDirectory& local, Events& events, WorkQueue& queue,
                                     const std::string& host, const Settings& settings)
    : offers_(shared, local, events, queue, host, settings.offers),
      table_(shared, queue, settings.offers.follower),
      sender_(shared, offers_, table_, queue, host, settings.sender),
      worker_(shared, local, offers_, table_, events, queue, host, settings.worker),
      plugins_(local, offers_, sender_, table_) {
  table_.OnChange([this] { worker_.Schedule(); });
  offers_.OnChange([this](const std::string&) { worker_.Schedule(); });
  worker_.Schedule();  // for changes before
}

void ControllerSharing::BeginStop() {
  table_.BeginStop();
  worker_.BeginStop();
  offers_.BeginStop();
}

// The worker outlives the threads that wake it.
void ControllerSharing::Stop() {
  BeginStop();
  offers_.Stop();
  table_.Stop();
  worker_.Stop();
  sender_.Stop();
}

ControllerSharing::Metrics ControllerSharing::metrics() const {
  return {.sent = sender_.counts(),
          .worked = worker_.counts(),
          .watch_age = Clock::now() - std::min(offers_.LastProgress(), table_.LastProgress())};
}

}  // namespace mooring::manager
