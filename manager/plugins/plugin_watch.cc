#include "manager/plugins/plugin_watch.h"

#include <algorithm>
#include <utility>

namespace mooring::manager {

PluginWatch::PluginWatch(std::function<Instances()> in_use, CsiConnector connect, const Settings& settings)
    : in_use_(std::move(in_use)), connect_(std::move(connect)), settings_(settings) {}

void PluginWatch::Inspect(const std::stop_token& stop) {
  std::map<std::string, Instances> by_id;
  for (auto& role : in_use_()) by_id[role->instance().instance_id].push_back(std::move(role));
  std::erase_if(watched_, [&](const auto& each) { return !by_id.contains(each.first); });
  for (const auto& [id, roles] : by_id) {
    Watched& watched = watched_[id];
    const bool any_new =
        std::any_of(roles.begin(), roles.end(), [](const auto& role) { return role->fingerprint().at == Time(); });
    if (stop.stop_requested() || (!any_new && Clock::now() < watched.next)) continue;
    // A channel that was connected to another socket of this id belongs to a registration that has ended.
    if (!watched.channel || any_new) {
      watched.channel = connect_(roles.front()->instance().socket_path, roles.front()->instance().name);
    }
    InspectOne(watched, roles, stop);
  }
}

void PluginWatch::InspectOne(Watched& watched, const Instances& roles, const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [&watched] { watched.channel->Close(); });
  const absl::Status probed = ProbePlugin(*watched.channel, Clock::now() + settings_.probe_time);
  const bool describe = probed.ok() && Clock::now() >= watched.describe_at;
  const Clock::time_point describe_until = Clock::now() + settings_.describe_time;
  bool complete = true;
  for (const auto& role : roles) {
    const Fingerprint known = role->fingerprint();
    if (known.healthy && probed.ok() && !describe) continue;
    Fingerprint found = DescribePlugin(*watched.channel, role->instance().type, known, probed, describe_until);
    if (stop.stop_requested()) return;  // the error may be one that the stop has caused
    complete &= found.complete;
    role->Store(std::move(found));
  }
  if (stop.stop_requested()) return;
  const Clock::time_point now = Clock::now();
  if (describe) watched.describe_at = now + settings_.describe_interval;
  watched.next = now + (probed.ok() && complete ? settings_.probe_interval : settings_.retry);
  watched.verdict = {now, probed};
}

Clock::time_point PluginWatch::Next() const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [id, watched] : watched_) next = std::min(next, watched.next);
  return next;
}

const PluginWatch::Verdict* PluginWatch::Find(const std::string& instance) const {
  const auto found = watched_.find(instance);
  return found == watched_.end() || found->second.verdict.at == Clock::time_point() ? nullptr : &found->second.verdict;
}

}  // namespace mooring::manager
