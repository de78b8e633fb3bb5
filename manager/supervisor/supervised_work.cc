// The thread of a plugin: what it does again and again while the plugin is wanted.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/launch/placeholders.h"
#include "manager/supervisor/seconds.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

void SupervisedPlugin::Work() {
  Adopt();
  while (goal() == Goal::kSupervise) {
    Attend();
    Show();
    std::vector<int> exits;
    for (const auto* instance : {serving_.get(), starting_.get()}) {
      if (instance != nullptr && instance->ExitFd() >= 0) exits.push_back(instance->ExitFd());
    }
    waker_.Wait(NextLook(), exits);
  }
  if (goal() == Goal::kEnd) WorkOnEnd();
  endings_.Leave();
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void SupervisedPlugin::Attend() {
  const PluginRecord wanted = TakeWanted();
  const std::string version = VersionOf(wanted);
  if (version != std::exchange(attended_, version)) backoff_ = settings_.first_backoff;
  waits_for_end_ = false;
  if (Clock::now() >= look_again_at_) AdoptLeft(wanted);
  if (starting_ && starting_->version() != version) endings_.Begin(std::move(starting_));
  if (serving_ && !serving_->IsAlive()) GiveUpServing(serving_->Words());
  // Before the one that serves is probed: one that hangs does not keep its successor waiting.
  if (starting_) {
    AttendStarting();
  } else if ((!serving_ || serving_->version() != version) && Clock::now() >= next_try_) {
    if (MayBegin(wanted)) Begin(wanted);
  }
  if (serving_) AttendServing();
}

Clock::time_point SupervisedPlugin::NextLook() const {
  Clock::time_point look = look_again_at_;
  if (serving_) look = std::min(look, serving_->next_look);
  if (starting_) return std::min(look, starting_->next_look);
  const bool none_to_begin = serving_ && serving_->version() == attended_;
  return none_to_begin || waits_for_end_ ? look : std::min(look, next_try_);
}

// Two processes of one plugin are too many where the one before can be neither used nor ended.
bool SupervisedPlugin::MayBegin(const PluginRecord& wanted) {
  if (!wanted.run || (left_.empty() && endings_.AreOver())) return true;
  waits_for_end_ = true;
  if (!left_.empty()) {
    NotBegun(wanted, fmt::format("an instance from before cannot be looked at, and no other is started beside it: {}",
                                 Message(left_problem_)));
  } else if (const std::string failed = endings_.WhatHasFailed(); !failed.empty()) {
    NotBegun(wanted,
             fmt::format("{} could not be ended yet, and no other is started beside it: see the events", failed));
  }
  return false;
}

void SupervisedPlugin::NotBegun(const PluginRecord& wanted, const std::string& words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.failed = VersionOf(wanted);
  status_.words = words;
  changed_.notify_all();
}

void SupervisedPlugin::Begin(const PluginRecord& wanted) {
  auto instance = Launch(wanted);
  if (goal() != Goal::kSupervise) {  // cut short, perhaps
    if (instance.ok()) starting_ = *std::move(instance);
    return;
  }
  if (!instance.ok()) {
    Tell(around_.events, name_, "failed", true, nullptr, "It cannot be started: " + Message(instance.status()));
    BackOff(VersionOf(wanted), Message(instance.status()));
    return;
  }
  starting_ = *std::move(instance);
  starting_->tell_at = Clock::now() + settings_.tell_interval;
  if (starting_->IsOurs()) {
    starting_->ready_by = Clock::now() + wanted.run->start_deadline;
    Tell(around_.events, name_, "starting", false, starting_.get(), fmt::format("Started as {}.", starting_->Handle()));
  }
  Show();
  AttendStarting();
}

absl::StatusOr<std::unique_ptr<SupervisedInstance>> SupervisedPlugin::Launch(const PluginRecord& wanted) {
  if (!wanted.run) return std::make_unique<SupervisedInstance>(wanted, Connect(wanted.endpoint));
  MOORING_ASSIGN_OR_RETURN(InstanceDirectory directory,
                           MakeInstanceDirectory(settings_.socket_root, name_, *wanted.run));
  auto process =
      LauncherOf(directory.kind).Launch(SpecOf(directory, *wanted.run), Clock::now() + wanted.run->start_deadline);
  if (!process.ok()) {
    RemoveInstanceDirectory(directory.path);
    return process.status();
  }
  auto channel = Connect(directory.SocketPath());
  return std::make_unique<SupervisedInstance>(std::move(directory), *std::move(process), std::move(channel));
}

std::shared_ptr<CsiChannel> SupervisedPlugin::Connect(const std::string& socket_path) {
  auto channel = around_.connect(socket_path, name_);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(channels_, [](const auto& known) { return known.expired(); });
  channels_.push_back(channel);
  return channel;
}

absl::StatusOr<Introduction> SupervisedPlugin::Greet(SupervisedInstance& instance) {
  if (goal() != Goal::kSupervise) return absl::CancelledError("the manager is stopping");
  MOORING_RETURN_IF_ERROR(ProbeOnce(instance.channel(), Clock::now() + settings_.probe_time));
  return Introduce(instance.channel(), Clock::now() + settings_.probe_time);
}

void SupervisedPlugin::AttendStarting() {
  SupervisedInstance& instance = *starting_;
  if (!instance.IsAlive()) return FailStarting(instance.Words());
  if (Clock::now() < instance.next_look) return;
  const auto introduction = Greet(instance);
  if (goal() != Goal::kSupervise) return;
  if (introduction.ok()) return Promote(*introduction);

  const std::string words = Message(introduction.status());
  const auto now = Clock::now();
  if (now >= instance.ready_by) {
    return FailStarting(fmt::format("it was not ready within {}: {}", Seconds(now - instance.since), words));
  }
  if (now >= instance.tell_at) {
    Tell(around_.events, name_, "waiting", true, &instance,
         fmt::format("Waited for {} so far: {}", Seconds(now - instance.since), words));
    instance.tell_at = now + settings_.tell_interval;
  }
  instance.next_look = now + settings_.probe_interval;
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.words = words;
}

// The new one is registered first: there is no moment without one.
void SupervisedPlugin::Promote(const Introduction& introduction) {
  if (const absl::Status status = starting_->Register(around_.registry, introduction, settings_.root); !status.ok()) {
    return FailStarting(Message(status));
  }
  Tell(around_.events, name_, "ready", false, starting_.get(), fmt::format("Ready at {}.", starting_->Handle()));
  around_.on_types(name_, introduction.types);
  std::unique_ptr<SupervisedInstance> before = std::exchange(serving_, std::move(starting_));
  serving_->since = Clock::now();
  serving_->next_look = serving_->since + settings_.watch_interval;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.words.clear();
    status_.failed.clear();
  }
  Show();
  if (before) endings_.Begin(std::move(before));
}

void SupervisedPlugin::AttendServing() {
  if (goal() != Goal::kSupervise || Clock::now() < serving_->next_look) return;
  const bool was_sick = serving_->sick_since.has_value();
  absl::Status probed;
  if (was_sick) {  // it may have been exchanged for another meanwhile, where somebody else runs it
    const auto introduction = Greet(*serving_);
    probed =
        introduction.ok() ? serving_->Register(around_.registry, *introduction, settings_.root) : introduction.status();
  } else {
    probed = ProbeOnce(serving_->channel(), Clock::now() + settings_.probe_time);
  }
  if (goal() != Goal::kSupervise) return;
  serving_->next_look = Clock::now() + settings_.watch_interval;
  NoteHealth(probed);
}

void SupervisedPlugin::NoteHealth(const absl::Status& probed) {
  SupervisedInstance& instance = *serving_;
  const std::string words = Message(probed);
  if (words != instance.sick_words) {
    Tell(around_.events, name_, "health", !probed.ok(), &instance,
         probed.ok() ? "Healthy again." : "Not healthy: " + words);
    instance.sick_words = words;
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.words = words;
  }
  if (probed.ok()) {
    instance.sick_since.reset();
    return;
  }
  if (!instance.sick_since) instance.sick_since = Clock::now();
  const Clock::duration sick = Clock::now() - *instance.sick_since;
  // One of an earlier version could not be started again: its successor replaces it, once that is ready.
  if (instance.IsOurs() && instance.version() == attended_ && sick >= settings_.sick_for) {
    GiveUpServing(fmt::format("it was not healthy for {}: {}", Seconds(sick), words));
  }
}

void SupervisedPlugin::GiveUpServing(const std::string& why) {
  Tell(around_.events, name_, "ended", true, serving_.get(), "Given up: " + why);
  const std::string version = serving_->version();
  if (Clock::now() - serving_->since > settings_.longest_backoff) backoff_ = settings_.first_backoff;
  endings_.Begin(std::move(serving_));
  if (!starting_ && version == attended_) BackOff(version, why);
}

void SupervisedPlugin::FailStarting(const std::string& words) {
  const std::string version = starting_->version();
  Tell(around_.events, name_, "failed", true, starting_.get(), "It did not become ready: " + words);
  endings_.Begin(std::move(starting_));
  BackOff(version, words);
}

void SupervisedPlugin::BackOff(const std::string& version, const std::string& words) {
  next_try_ = Clock::now() + backoff_;
  backoff_ = std::min(2 * backoff_, settings_.longest_backoff);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++status_.restarts;
  ++restarts_;
  status_.failed = version;
  status_.words = words;
  changed_.notify_all();
}

LaunchSpec SupervisedPlugin::SpecOf(const InstanceDirectory& directory, const PluginRecord::Run& run) const {
  return {.plugin = name_,
          .instance_id = directory.id,
          .run = FillPlaceholders(run, {.socket = directory.SocketPath(), .node = settings_.host}),
          .socket_directory = directory.path,
          .root = settings_.root,
          .stop = stop_.get_token()};
}

Launcher& SupervisedPlugin::LauncherOf(PluginRecord::Run::Kind kind) const {
  return kind == PluginRecord::Run::Kind::kContainer ? around_.container : around_.exec;
}

void SupervisedPlugin::Show() {
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.serving = serving_ ? serving_->version() : "";
  status_.handle = serving_ ? serving_->Handle() : "";
  status_.starting_since.reset();
  status_.next_try.reset();
  if (starting_) {
    status_.starting_since = starting_->since;
  } else if (next_try_ > Clock::now()) {
    status_.next_try = next_try_;
  }
  changed_.notify_all();
}

}  // namespace mooring::manager
