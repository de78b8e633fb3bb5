// Watches every registered plugin, each in a thread of its own, as the supervisor does in the manager.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "manager/plugins/plugin_set.h"
#include "manager/plugins/plugin_watch.h"
#include "manager/work/work_queue.h"

namespace mooring::testing {

// Inspects each instance once, and again only while that fails.
inline manager::PluginWatch::Settings WatchOnce() {
  return {.probe_interval = std::chrono::hours(1),
          .probe_time = std::chrono::seconds(20),
          .describe_interval = std::chrono::hours(1),
          .describe_time = std::chrono::seconds(20),
          .retry = std::chrono::milliseconds(2)};
}

class WatchThreads {
 public:
  // All references outlive the threads.
  WatchThreads(manager::PluginSet& plugins, manager::CsiConnector connect, manager::WorkQueue& work,
               manager::PluginWatch::Settings settings = WatchOnce())
      : plugins_(plugins), connect_(std::move(connect)), work_(work), settings_(settings) {}

  ~WatchThreads() {
    finder_.request_stop();
    finder_.join();
    for (auto& [name, thread] : threads_) thread.request_stop();
  }

 private:
  static constexpr std::chrono::milliseconds kRound{1};

  void FindPlugins(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const manager::PluginStatus& plugin : plugins_.List()) {
        if (threads_.contains(plugin.name)) continue;
        threads_[plugin.name] =
            std::jthread([this, name = plugin.name](const std::stop_token& end) { Watch(name, end); });
      }
      manager::SleepUntil(stop, manager::Clock::now() + kRound);
    }
  }

  void Watch(const std::string& name, const std::stop_token& stop) {
    manager::PluginWatch watch(plugins_, name, connect_, work_, settings_);
    while (!stop.stop_requested()) {
      watch.Inspect(stop);
      manager::SleepUntil(stop, std::min(watch.Next(), manager::Clock::now() + kRound));
    }
  }

  manager::PluginSet& plugins_;
  const manager::CsiConnector connect_;
  manager::WorkQueue& work_;
  const manager::PluginWatch::Settings settings_;
  std::map<std::string, std::jthread> threads_;  // by plugin
  std::jthread finder_{[this](const std::stop_token& stop) { FindPlugins(stop); }};
};

}  // namespace mooring::testing
