// The thread of a plugin: its rounds while the plugin is wanted.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/launch/placeholders.h"
#include "manager/plugins/fingerprint.h"
#include "manager/supervisor/seconds.h"
#include "manager/supervisor/supervised_plugin.h"

namespace mooring::manager {

void SupervisedPlugin::Work() {
  Adopt();
  while (goal() == Goal::kSupervise) {
    DoRound();
    UpdateStatus();
    std::vector<int> exits;
    for (const auto* instance : {serving_.get(), starting_.get()}) {
      if (instance != nullptr && instance->ExitFd() >= 0) exits.push_back(instance->ExitFd());
    }
    wake_.Wait(NextRound(), exits);
  }
  if (goal() == Goal::kTerminate) WorkOnTermination();
  terminator_.Stop();
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void SupervisedPlugin::DoRound() {
  const PluginRecord wanted = ReadWanted();
  const std::string version = VersionOf(wanted);
  if (version != std::exchange(tried_version_, version)) backoff_ = settings_.first_backoff;
  waits_for_end_ = false;
  if (Clock::now() >= adopt_again_at_) AdoptLeft(wanted);
  if (starting_ && starting_->version() != version) terminator_.Begin(std::move(starting_));
  if (serving_ && !serving_->IsAlive()) GiveUpServing(serving_->Describe());
  // Before the serving instance is probed: one that hangs must not delay its successor.
  if (starting_) {
    CheckStarting();
  } else if ((!serving_ || serving_->version() != version) && Clock::now() >= next_try_) {
    if (MayBegin(wanted)) Begin(wanted);
  }
  if (serving_) CheckServing();
}

Clock::time_point SupervisedPlugin::NextRound() const {
  Clock::time_point look = adopt_again_at_;
  if (serving_) look = std::min(look, serving_->next_probe);
  if (starting_) return std::min(look, starting_->next_probe);
  const bool none_to_begin = serving_ && serving_->version() == tried_version_;
  return none_to_begin || waits_for_end_ ? look : std::min(look, next_try_);
}

// No second process is started beside one that can neither be used nor ended.
bool SupervisedPlugin::MayBegin(const PluginRecord& wanted) {
  if (!wanted.run || (left_.empty() && terminator_.IsIdle())) return true;
  waits_for_end_ = true;
  if (!left_.empty()) {
    RefuseToBegin(wanted, fmt::format("the state of an instance that an earlier manager left cannot be read, and no "
                                      "other is started beside it: {}",
                                      Message(left_problem_)));
  } else if (const std::string failed = terminator_.FailedInstance(); !failed.empty()) {
    RefuseToBegin(
        wanted,
        fmt::format("{} could not be ended yet, and no other is started beside it; run 'mooring events' for the reason",
                    failed));
  }
  return false;
}

void SupervisedPlugin::RefuseToBegin(const PluginRecord& wanted, const std::string& problem) {
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.failed = VersionOf(wanted);
  status_.problem = problem;
  changed_.notify_all();
}

void SupervisedPlugin::Begin(const PluginRecord& wanted) {
  auto instance = Launch(wanted);
  if (goal() != Goal::kSupervise) {  // the stop may have cut the launch short
    if (instance.ok()) starting_ = *std::move(instance);
    return;
  }
  if (!instance.ok()) {
    AddEvent(deps_.events, name_, "failed", true, nullptr,
             "The plugin cannot be started: " + Message(instance.status()));
    BackOff(VersionOf(wanted), Message(instance.status()));
    return;
  }
  starting_ = *std::move(instance);
  starting_->report_at = Clock::now() + settings_.report_interval;
  if (starting_->IsOurs()) {
    starting_->ready_by = Clock::now() + wanted.run->start_deadline;
    AddEvent(deps_.events, name_, "starting", false, starting_.get(),
             fmt::format("Started as {}.", starting_->Handle()));
  }
  UpdateStatus();
  CheckStarting();
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
  auto channel = deps_.connect(socket_path, name_);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(channels_, [](const auto& known) { return known.expired(); });
  channels_.push_back(channel);
  return channel;
}

absl::StatusOr<Handshake> SupervisedPlugin::ProbeAndHandshake(SupervisedInstance& instance) {
  if (goal() != Goal::kSupervise) return Stopping();
  MOORING_RETURN_IF_ERROR(ProbePlugin(instance.channel(), Clock::now() + settings_.probe_time));
  return DoHandshake(instance.channel(), Clock::now() + settings_.probe_time);
}

void SupervisedPlugin::CheckStarting() {
  SupervisedInstance& instance = *starting_;
  if (!instance.IsAlive()) return FailStarting(instance.Describe());
  if (Clock::now() < instance.next_probe) return;
  const auto handshake = ProbeAndHandshake(instance);
  if (goal() != Goal::kSupervise) return;
  if (handshake.ok()) return Promote(*handshake);

  const std::string problem = Message(handshake.status());
  const auto now = Clock::now();
  if (now >= instance.ready_by) {
    return FailStarting(fmt::format("it was not ready within {}: {}", Seconds(now - instance.since), problem));
  }
  if (now >= instance.report_at) {
    AddEvent(deps_.events, name_, "waiting", true, &instance,
             fmt::format("Not ready for {} so far: {}", Seconds(now - instance.since), problem));
    instance.report_at = now + settings_.report_interval;
  }
  instance.next_probe = now + settings_.probe_interval;
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.problem = problem;
}

// Registers the new instance before the old one is ended, so that one is registered at every moment.
void SupervisedPlugin::Promote(const Handshake& handshake) {
  if (const absl::Status status = starting_->Register(deps_.registry, handshake, settings_.root); !status.ok()) {
    return FailStarting(Message(status));
  }
  AddEvent(deps_.events, name_, "ready", false, starting_.get(), fmt::format("Ready at {}.", starting_->Handle()));
  deps_.on_types(name_, handshake.types);
  std::unique_ptr<SupervisedInstance> before = std::exchange(serving_, std::move(starting_));
  serving_->since = Clock::now();
  serving_->next_probe = serving_->since + settings_.watch_interval;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.problem.clear();
    status_.failed.clear();
  }
  UpdateStatus();
  if (before) terminator_.Begin(std::move(before));
}

void SupervisedPlugin::CheckServing() {
  if (goal() != Goal::kSupervise || Clock::now() < serving_->next_probe) return;
  const bool was_sick = serving_->sick_since.has_value();
  absl::Status probed;
  if (was_sick) {  // another plugin may serve an endpoint by now
    const auto handshake = ProbeAndHandshake(*serving_);
    probed = handshake.ok() ? serving_->Register(deps_.registry, *handshake, settings_.root) : handshake.status();
  } else {
    probed = ProbePlugin(serving_->channel(), Clock::now() + settings_.probe_time);
  }
  if (goal() != Goal::kSupervise) return;
  serving_->next_probe = Clock::now() + settings_.watch_interval;
  NoteHealth(probed);
}

void SupervisedPlugin::NoteHealth(const absl::Status& probed) {
  SupervisedInstance& instance = *serving_;
  const std::string problem = Message(probed);
  if (problem != instance.problem) {
    AddEvent(deps_.events, name_, "health", !probed.ok(), &instance,
             probed.ok() ? "Healthy again." : "Not healthy: " + problem);
    instance.problem = problem;
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.problem = problem;
  }
  if (probed.ok()) {
    instance.sick_since.reset();
    return;
  }
  if (!instance.sick_since) instance.sick_since = Clock::now();
  const Clock::duration sick = Clock::now() - *instance.sick_since;
  // An instance of an earlier version is kept until its successor is ready, because it could not be started again.
  if (instance.IsOurs() && instance.version() == tried_version_ && sick >= settings_.sick_for) {
    GiveUpServing(fmt::format("it was not healthy for {}: {}", Seconds(sick), problem));
  }
}

void SupervisedPlugin::GiveUpServing(const std::string& why) {
  AddEvent(deps_.events, name_, "ended", true, serving_.get(), "The instance is given up: " + why);
  const std::string version = serving_->version();
  if (Clock::now() - serving_->since > settings_.longest_backoff) backoff_ = settings_.first_backoff;
  terminator_.Begin(std::move(serving_));
  if (!starting_ && version == tried_version_) BackOff(version, why);
}

void SupervisedPlugin::FailStarting(const std::string& problem) {
  const std::string version = starting_->version();
  AddEvent(deps_.events, name_, "failed", true, starting_.get(), "The plugin did not become ready: " + problem);
  terminator_.Begin(std::move(starting_));
  BackOff(version, problem);
}

void SupervisedPlugin::BackOff(const std::string& version, const std::string& problem) {
  next_try_ = Clock::now() + backoff_;
  backoff_ = std::min(2 * backoff_, settings_.longest_backoff);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++status_.restarts;
  ++restarts_;
  status_.failed = version;
  status_.problem = problem;
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
  return kind == PluginRecord::Run::Kind::kContainer ? deps_.container : deps_.exec;
}

void SupervisedPlugin::UpdateStatus() {
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
