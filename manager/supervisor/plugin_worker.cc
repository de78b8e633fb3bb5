#include "manager/supervisor/plugin_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "manager/plugins/fingerprint.h"
#include "manager/supervisor/supervised_instance.h"

namespace mooring::manager {

std::vector<std::unique_ptr<SupervisedInstance>> LeftInstances::Adopt(const std::string& version) {
  std::vector<std::unique_ptr<SupervisedInstance>> adopted;
  const absl::Status before = std::exchange(problem_, absl::OkStatus());
  std::stable_partition(directories_.begin(), directories_.end(),
                        [&](const auto& directory) { return VersionOf(directory) == version; });
  std::erase_if(directories_, [&](const InstanceDirectory& directory) {
    auto instance = AdoptOne(directory);
    problem_.Update(instance.status());
    if (!instance.ok()) return false;
    if (*instance != nullptr) adopted.push_back(*std::move(instance));
    return true;
  });
  again_at_ = directories_.empty() ? Clock::time_point::max() : Clock::now() + deps_.settings.end_again;
  if (!problem_.ok() && problem_ != before) {
    AddEvent(deps_.events, plugin_, "failed", true, nullptr,
             "The state of an instance that an earlier manager left cannot be read; the manager tries again: " +
                 Message(problem_));
  }
  return adopted;
}

// Gives null for an instance that ended while no manager ran.
absl::StatusOr<std::unique_ptr<SupervisedInstance>> LeftInstances::AdoptOne(const InstanceDirectory& directory) {
  auto instance = AdoptInstance(deps_, directory);
  if (!absl::IsNotFound(instance.status())) return instance;
  MOORING_RETURN_IF_ERROR(deps_.plugins.Retire(plugin_, directory.id, kEarlierManager));
  RemoveInstanceDirectory(directory.path);
  return nullptr;
}

PluginWorker::PluginWorker(const SupervisorDependencies& deps, SupervisedPlugin& plugin, Terminator& terminator,
                           WakeEvent& wake, std::vector<InstanceDirectory> left, std::stop_token stop)
    : deps_(deps),
      settings_(deps.settings),
      plugin_(plugin),
      name_(plugin.name()),
      terminator_(terminator),
      wake_(wake),
      stop_(std::move(stop)),
      left_(deps, name_, std::move(left)),
      watch_(deps.plugins, name_, deps.connect, deps.work, deps.settings.watch),
      launch_(deps, wake),
      back_off_(deps.settings.first_backoff, deps.settings.longest_backoff) {}

void PluginWorker::Run() {
  const PluginRecord wanted = plugin_.wanted();
  version_ = VersionOf(wanted);
  watch_.Inspect(stop_);  // before the adoption, which may wait for a container engine
  AdoptLeft(wanted);
  if (!wanted.run && !wanted.endpoint.empty()) {
    auto endpoint = std::make_unique<SupervisedInstance>(wanted);
    if (endpoint->TakeOver(deps_.plugins)) {
      if (serving_) terminator_.Begin(std::move(serving_));
      serving_ = std::move(endpoint);
    }
  }
  UpdateStatus();
  while (IsWanted()) {
    DoRound();
    UpdateStatus();
    Wait();
  }
  if (launch_.IsUnderWay()) {
    if (auto launched = launch_.Take(); launched.ok()) starting_ = *std::move(launched);
  }
  if (plugin_.IsTerminating()) Terminate();
  terminator_.Stop();
  plugin_.NoteOver();
}

void PluginWorker::DoRound() {
  if (plugin_.TakeHurry()) back_off_.TryNow();
  const PluginRecord wanted = plugin_.wanted();
  const std::string version = VersionOf(wanted);
  if (version != std::exchange(version_, version)) back_off_.Reset();
  waits_for_end_ = false;
  if (Clock::now() >= left_.again_at()) AdoptLeft(wanted);
  if (launch_.IsUnderWay() && launch_.IsOver()) TakeLaunched();
  if (starting_ && starting_->version() != version) terminator_.Begin(std::move(starting_));
  if (serving_ && !serving_->IsAlive()) GiveUpServing(serving_->Describe());
  // Before the serving instance is probed: an instance that hangs must not delay its successor.
  BeginIfDue(wanted);
  if (starting_) CheckStarting();
  if (IsWanted()) WatchServing();
}

// Until a Probe, an adoption or a launch is due, a process ends, or another thread wakes this one.
void PluginWorker::Wait() {
  Clock::time_point next = std::min(left_.again_at(), watch_.Next());
  const bool none_to_begin = launch_.IsUnderWay() || waits_for_end_ || (serving_ && serving_->version() == version_);
  if (starting_) {
    next = std::min(next, starting_->next_probe);
  } else if (!none_to_begin) {
    next = std::min(next, back_off_.next_try());
  }
  std::vector<int> exits;
  for (const auto* instance : {serving_.get(), starting_.get()}) {
    if (instance != nullptr && instance->ExitFd() >= 0) exits.push_back(instance->ExitFd());
  }
  wake_.Wait(next, exits);
}

void PluginWorker::AdoptLeft(const PluginRecord& wanted) {
  if (left_.IsEmpty()) return;
  const bool had_problem = !left_.problem().ok();
  for (auto& instance : left_.Adopt(VersionOf(wanted))) Place(std::move(instance), wanted);
  if (had_problem && left_.IsEmpty()) plugin_.Update([](auto& status) { status.problem.clear(); });
}

// An instance of another version than the wanted one is kept only until that one serves.
void PluginWorker::Place(std::unique_ptr<SupervisedInstance> adopted, const PluginRecord& wanted) {
  const bool registered = adopted->TakeOver(deps_.plugins);
  const bool is_wanted = adopted->version() == VersionOf(wanted);
  if (plugin_.IsTerminating()) {
    terminator_.Begin(std::move(adopted));
  } else if (registered && !serving_) {
    AddEvent(deps_.events, name_, "adopted", false, adopted.get(),
             adopted->Handle() + " was started by an earlier manager, and still runs.");
    serving_ = std::move(adopted);
  } else if (!registered && is_wanted && !starting_ && !serving_) {
    adopted->ready_by = Clock::now() + wanted.run->start_deadline;
    adopted->report_at = Clock::now() + settings_.report_interval;
    starting_ = std::move(adopted);
  } else {
    terminator_.Begin(std::move(adopted));
  }
}

void PluginWorker::BeginIfDue(const PluginRecord& wanted) {
  if (starting_ || launch_.IsUnderWay() || (serving_ && serving_->version() == version_)) return;
  if (Clock::now() < back_off_.next_try() || !MayBegin(wanted)) return;
  if (wanted.run) return launch_.Begin(wanted, stop_);
  starting_ = std::make_unique<SupervisedInstance>(wanted);
  starting_->report_at = Clock::now() + settings_.report_interval;
}

// No second process is started beside one that can neither be used nor ended.
bool PluginWorker::MayBegin(const PluginRecord& wanted) {
  if (!wanted.run || (left_.IsEmpty() && terminator_.IsIdle())) return true;
  waits_for_end_ = true;
  if (!left_.IsEmpty()) {
    RefuseToBegin(
        fmt::format("the state of an instance that an earlier manager left cannot be read, and no other is "
                    "started beside it: {}",
                    Message(left_.problem())));
  } else if (const std::string failed = terminator_.FailedInstance(); !failed.empty()) {
    RefuseToBegin(fmt::format(
        "{} could not be ended yet, and no other is started beside it; run 'mooring events' for the reason", failed));
  }
  return false;
}

void PluginWorker::RefuseToBegin(const std::string& problem) {
  plugin_.Update([&](auto& status) {
    status.failed = version_;
    status.problem = problem;
  });
}

void PluginWorker::TakeLaunched() {
  auto launched = launch_.Take();
  if (!IsWanted()) {  // a stop has cut the launch short, which is no failure
    if (launched.ok()) starting_ = *std::move(launched);
    return;
  }
  if (!launched.ok()) {
    const std::string problem = Message(launched.status());
    AddEvent(deps_.events, name_, "failed", true, nullptr, "The plugin cannot be started: " + problem);
    return NoteFailure(VersionOf(launch_.wanted()), problem);
  }
  starting_ = *std::move(launched);
  starting_->report_at = Clock::now() + settings_.report_interval;
  starting_->ready_by = Clock::now() + launch_.wanted().run->start_deadline;
  AddEvent(deps_.events, name_, "starting", false, starting_.get(), fmt::format("Started as {}.", starting_->Handle()));
  UpdateStatus();
}

absl::StatusOr<Handshake> PluginWorker::ProbeAndHandshake(const SupervisedInstance& instance) {
  const auto channel = deps_.connect(instance.socket_path(), name_);
  const std::stop_callback on_stop(stop_, [&channel] { channel->Close(); });
  MOORING_RETURN_IF_ERROR(ProbePlugin(*channel, Clock::now() + settings_.watch.probe_time));
  return DoHandshake(*channel, Clock::now() + settings_.watch.probe_time);
}

void PluginWorker::CheckStarting() {
  SupervisedInstance& instance = *starting_;
  if (!instance.IsAlive()) return FailStarting(instance.Describe());
  if (Clock::now() < instance.next_probe) return;
  const auto handshake = ProbeAndHandshake(instance);
  if (!IsWanted()) return;
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
  plugin_.Update([&](auto& status) { status.problem = problem; });
}

// Registers the new instance before the old one is ended, so that one is registered at every moment.
void PluginWorker::Promote(const Handshake& handshake) {
  if (const absl::Status status = starting_->Register(deps_.plugins, handshake, settings_.root); !status.ok()) {
    return FailStarting(Message(status));
  }
  AddEvent(deps_.events, name_, "ready", false, starting_.get(), fmt::format("Ready at {}.", starting_->Handle()));
  deps_.on_types(name_, handshake.types);
  std::unique_ptr<SupervisedInstance> before = std::exchange(serving_, std::move(starting_));
  serving_->since = Clock::now();
  plugin_.Update([](auto& status) {
    status.problem.clear();
    status.failed.clear();
  });
  UpdateStatus();
  if (before) terminator_.Begin(std::move(before));
}

void PluginWorker::FailStarting(const std::string& problem) {
  const std::string version = starting_->version();
  AddEvent(deps_.events, name_, "failed", true, starting_.get(), "The plugin did not become ready: " + problem);
  terminator_.Begin(std::move(starting_));
  NoteFailure(version, problem);
}

// The watch reports the health of all registered instances. This decides whether the serving instance is restarted.
void PluginWorker::WatchServing() {
  watch_.Inspect(stop_);
  const PluginWatch::Verdict* const verdict = serving_ ? watch_.Find(serving_->id()) : nullptr;
  if (!IsWanted() || verdict == nullptr || verdict->at == serving_->judged_at) return;
  serving_->judged_at = verdict->at;
  absl::Status health = verdict->probed;
  if (health.ok() && serving_->sick_since) health = HandshakeAgain();
  if (!IsWanted()) return;
  const std::string problem = Message(health);
  if (problem != std::exchange(serving_->problem, problem)) {
    plugin_.Update([&](auto& status) { status.problem = problem; });
  }
  if (health.ok()) {
    serving_->sick_since.reset();
    return;
  }
  if (!serving_->sick_since) serving_->sick_since = Clock::now();
  const Clock::duration sick = Clock::now() - *serving_->sick_since;
  // An instance of an earlier version is kept until its successor is ready, because it could not be started again.
  if (serving_->IsOurs() && serving_->version() == version_ && sick >= settings_.sick_for) {
    GiveUpServing(fmt::format("it was not healthy for {}: {}", Seconds(sick), problem));
  }
}

// Another plugin may serve an endpoint by now.
absl::Status PluginWorker::HandshakeAgain() {
  MOORING_ASSIGN_OR_RETURN(const Handshake handshake, ProbeAndHandshake(*serving_));
  MOORING_RETURN_IF_ERROR(serving_->Register(deps_.plugins, handshake, settings_.root));
  watch_.Inspect(stop_);  // another version or role is a new instance to the watch
  return absl::OkStatus();
}

void PluginWorker::GiveUpServing(const std::string& why) {
  AddEvent(deps_.events, name_, "ended", true, serving_.get(), "The instance is given up: " + why);
  const std::string version = serving_->version();
  if (Clock::now() - serving_->since > settings_.longest_backoff) back_off_.Reset();
  terminator_.Begin(std::move(serving_));
  if (!starting_ && !launch_.IsUnderWay()) NoteFailure(version, why);
}

void PluginWorker::NoteFailure(const std::string& version, const std::string& problem) {
  if (version != version_) return;
  back_off_.Fail();
  plugin_.Update([&](auto& status) {
    ++status.restarts;
    ++status.restarts_ever;
    status.failed = version;
    status.problem = problem;
  });
}

void PluginWorker::UpdateStatus() {
  plugin_.Update([&](auto& status) {
    status.serving = serving_ ? serving_->version() : "";
    status.handle = serving_ ? serving_->Handle() : "";
    status.starting_since.reset();
    status.next_try.reset();
    if (starting_) {
      status.starting_since = starting_->since;
    } else if (back_off_.next_try() > Clock::now()) {
      status.next_try = back_off_.next_try();
    }
  });
}

// Tries until nothing is left, or until the manager is stopping.
void PluginWorker::Terminate() {
  const PluginRecord wanted = plugin_.wanted();
  plugin_.TakeHurry();
  Clock::time_point since = Clock::now();
  for (auto* instance : {&serving_, &starting_}) {
    if (*instance) terminator_.Begin(std::move(*instance));
  }
  UpdateStatus();
  for (;; since = Clock::now()) {
    AdoptLeft(wanted);
    absl::Status ended = terminator_.TryAll(since);
    ended.Update(left_.problem());
    if (plugin_.NoteTermination(ended, left_.IsEmpty() && terminator_.IsIdle())) return;
    if (!AwaitNextTermination()) return;
  }
}

bool PluginWorker::AwaitNextTermination() {
  while (!plugin_.IsStopping()) {
    if (plugin_.TakeHurry()) return true;
    if (Clock::now() >= left_.again_at() || (left_.IsEmpty() && terminator_.IsIdle())) return true;
    wake_.Wait(left_.again_at(), {});
  }
  return false;
}

}  // namespace mooring::manager
