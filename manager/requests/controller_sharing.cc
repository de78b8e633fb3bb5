#include "manager/requests/controller_sharing.h"

#include <algorithm>

namespace mooring::manager {

ControllerSharing::ControllerSharing(State& shared, PluginDirectory& local, Events& events, WorkQueue& queue,
                                     const std::string& host, const Settings& settings)
    : offers_(shared, local, events, host, settings.offers),
      table_(shared, settings.offers.follower),
      sender_(shared, offers_, table_, queue, host, settings.sender),
      worker_(shared, local, offers_, table_, events, queue, host, settings.worker),
      plugins_(local, offers_, sender_, table_) {
  table_.OnChange([this] { worker_.Wake(); });
  offers_.OnChange([this](const std::string&) { worker_.Wake(); });
  worker_.Wake();  // for changes before
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
