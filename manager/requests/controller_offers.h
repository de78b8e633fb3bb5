// Offers the healthy controllers of this host to others, and knows those that other hosts offer.
//
//   local PluginDirectory ──look──▶ queue ──▶ shared/controllers/<plugin>/<this host>, under the lease
//                                             shared/controllers/ ──watch──▶ OfOthers
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/hosts/key_follower.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/events.h"
#include "manager/state/state.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

// An offer of a host: a plugin has a healthy controller there.
struct ControllerOffer {
  std::string plugin, host;
  Fingerprint fingerprint;  // of the controller: healthy and complete; with the topology of the host's node service
};

std::string ToValue(const ControllerOffer& offer);

// None, with a warning in the log: it is not the value of an offer.
std::optional<ControllerOffer> ToOffer(const KeyValue& stored);

// The controller of another host in the status of a plugin: its provider is "host", and its id the host's name.
InstanceInfo InstanceOf(const ControllerOffer& offer);

// Safe from several threads.
class ControllerOffers {
 public:
  struct Settings {
    Clock::duration look = std::chrono::seconds(5);  // between two looks at the local plugins
    KeyFollower::Settings follower;
  };

  // The references outlive the object. Starts at once.
  ControllerOffers(State& shared, PluginDirectory& local, Events& events, WorkQueue& queue, std::string host,
                   const Settings& settings);
  ~ControllerOffers();

  // Looks at the local plugins now, and puts what this lease does not have. Called when lease or plugins have changed.
  void Refresh();

  void BeginStop();
  void Stop();  // withdraws the offers, if the lease is still valid

  const std::string& host() const { return host_; }  // this one
  bool IsOfferedHere(const ControllerFor& call) const;
  std::vector<ControllerOffer> OfOthers() const;                           // by plugin and host
  std::vector<ControllerOffer> OfOthers(const ControllerFor& call) const;  // by host
  std::optional<ControllerOffer> NextOfOthers(const ControllerFor& call);  // each host in turn
  bool IsOfferedBy(const std::string& plugin, const std::string& host) const;

  // `changed` is called when the first of the other hosts begins to offer the plugin, and when the last one ceases to.
  // The same holds for this host alone, also if another topology is known. Called with no lock held.
  void OnChange(std::function<void(const std::string& plugin)> changed);

  Clock::time_point LastProgress() const { return follower_.LastProgress(); }

 private:
  using ByKey = std::map<std::string, ControllerOffer>;  // by the key in the state
  struct Stored {
    std::string value;
    std::int64_t revision = 0;
  };

  void Look();
  absl::Status Publish();
  absl::Status Put(const std::string& key, const std::string& value);
  absl::Status Withdraw(const std::string& key);

  void Listed(const Listing& all);
  void Changed(const std::vector<Change>& changes);
  void NoteOwnDelete(const KeyValue& deleted);
  void Report(const ByKey& before, const ByKey& after);
  void Tell(const std::set<std::string>& plugins);

  State& shared_;
  PluginDirectory& local_;
  Events& events_;
  const std::string host_;
  const Settings settings_;

  mutable std::mutex mutex_;                    // guards all below, up to work_
  ByKey here_;                                  // healthy controllers of this host
  std::map<std::string, Stored> stored_;        // offers of this host in the state, under lease `stored_under_`
  std::int64_t stored_under_ = 0;               // number of the lease
  ByKey others_;                                // offers of other hosts
  std::map<std::string, std::uint64_t> turns_;  // by plugin
  std::vector<std::function<void(const std::string&)>> callbacks_;

  WorkKind work_;         // looks
  KeyFollower follower_;  // last: it ends before the rest
};

}  // namespace mooring::manager
