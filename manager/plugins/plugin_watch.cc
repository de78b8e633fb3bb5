#include "manager/plugins/plugin_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mooring::manager {

PluginWatch::PluginWatch(PluginSet& plugins, std::string plugin, CsiConnector connect, WorkQueue& work,
                         const Settings& settings)
    : plugins_(plugins),
      plugin_(std::move(plugin)),
      connect_(std::move(connect)),
      settings_(settings),
      descriptions_(work, {.kind = "inspection", .is_routine = true}) {}

PluginWatch::~PluginWatch() {
  for (auto& [id, watched] : watched_) End(watched);
}

void PluginWatch::End(Watched& watched) {
  watched.ended.request_stop();
  if (watched.channel != nullptr) watched.channel->Close();
}

void PluginWatch::Inspect(const std::stop_token& stop) {
  std::map<std::string, Roles> by_id;
  for (auto& role : plugins_.ListInUse(plugin_)) by_id[role.instance.instance_id].push_back(std::move(role));
  for (auto next = watched_.begin(); next != watched_.end();) {
    const auto each = next++;
    if (by_id.contains(each->first)) continue;
    End(each->second);
    watched_.erase(each);
  }
  for (const auto& [id, roles] : by_id) {
    Watched& watched = watched_[id];
    const bool is_due = NoteRoles(watched, roles) || Clock::now() >= watched.next;
    if (is_due && !stop.stop_requested()) Probe(watched, roles, stop);
  }
}

// Gives whether a role is new. A channel to another socket belongs to a registration that has ended.
bool PluginWatch::NoteRoles(Watched& watched, const Roles& roles) {
  std::set<std::uint64_t> uses;
  for (const auto& role : roles) uses.insert(role.use);
  const std::set<std::uint64_t> before = std::exchange(watched.uses, uses);
  const InstanceInfo& instance = roles.front().instance;
  if (watched.channel == nullptr || watched.socket_path != instance.socket_path) {
    End(watched);
    watched.ended = std::stop_source();
    watched.socket_path = instance.socket_path;
    watched.channel = connect_(instance.socket_path, instance.name);
  }
  return !std::includes(before.begin(), before.end(), uses.begin(), uses.end());
}

void PluginWatch::Probe(Watched& watched, const Roles& roles, const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [&watched] { End(watched); });
  const absl::Status probed = ProbePlugin(*watched.channel, Clock::now() + settings_.probe_time);
  if (stop.stop_requested()) return;  // the error may be one that the stop has caused
  const Clock::time_point now = Clock::now();
  const bool describe = probed.ok() && now >= watched.describe_at;
  bool complete = true;
  for (const auto& role : roles) {
    if (!probed.ok()) {
      plugins_.StoreFailure(role, probed);
    } else if (describe || !role.known.healthy) {
      BeginDescription(watched, role);
    }
    complete &= role.known.complete;
  }
  if (describe) watched.describe_at = now + settings_.describe_interval;
  watched.next = now + (probed.ok() && complete ? settings_.probe_interval : settings_.retry);
  watched.verdict = {now, probed};
}

void PluginWatch::BeginDescription(const Watched& watched, const PluginSet::InUse& role) {
  const std::string key = fmt::format("{} {}", role.instance.instance_id, role.use);
  if (descriptions_.Has(key)) return;  // it hangs, or is slow
  const auto attempt = [&plugins = plugins_, channel = watched.channel, ended = watched.ended.get_token(), role,
                        time = settings_.describe_time] {
    const Fingerprint found = DescribePlugin(*channel, role.instance.type, role.known, Clock::now() + time);
    if (!ended.stop_requested()) plugins.Store(role, found);
    return absl::OkStatus();
  };
  descriptions_.Push({.key = key, .lane = key, .attempt = attempt});
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
