#include "manager/supervisor/supervised_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

std::string Seconds(Clock::duration time) {
  return fmt::format("{} s", std::max<std::int64_t>(0, std::chrono::round<std::chrono::seconds>(time).count()));
}

}  // namespace

SupervisedPlugin::SupervisedPlugin(const Surroundings& around, PluginRecord wanted, std::vector<InstanceDirectory> left)
    : around_(around),
      settings_(around.settings),
      name_(wanted.name),
      wanted_(std::move(wanted)),
      goal_(wanted_.run || !wanted_.endpoint.empty() ? Goal::kSupervise : Goal::kEnd),
      left_(std::move(left)),
      backoff_(around.settings.first_backoff),
      thread_([this] { Work(); }) {}

SupervisedPlugin::~SupervisedPlugin() { Leave(); }

void SupervisedPlugin::Want(const PluginRecord& record) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (VersionOf(record) != VersionOf(wanted_)) status_.restarts = 0;
    wanted_ = record;
    status_.failed.clear();
    hurry_ = true;
  }
  waker_.Wake();
}

absl::Status SupervisedPlugin::WaitUntilServing(Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::string version = VersionOf(wanted_);
  const auto settled = [&] {
    return status_.serving == version || status_.failed == version || goal_ != Goal::kSupervise ||
           VersionOf(wanted_) != version;
  };
  const bool in_time = changed_.wait_until(lock, until, settled);
  if (status_.serving == version) return absl::OkStatus();
  const std::string words = status_.words.empty() ? "it has said nothing yet" : status_.words;
  if (!in_time) {
    return absl::DeadlineExceededError(
        fmt::format("plugin {} is not ready: {}; it is waited for further", Quote(name_), words));
  }
  if (status_.failed == version) {
    return Unavailable(fmt::format("plugin {} did not start: {}; it is tried again", Quote(name_), words));
  }
  return Aborted(fmt::format("plugin {} was stopped or given another version meanwhile", Quote(name_)));
}

void SupervisedPlugin::Reach(Goal goal, Clock::time_point until) {
  std::vector<std::weak_ptr<CsiChannel>> channels;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (goal_ == Goal::kSupervise) goal_ = goal;
    end_until_ = std::min(end_until_, until);
    channels.swap(channels_);
    changed_.notify_all();
  }
  for (const auto& weak : channels) {
    if (const auto channel = weak.lock()) channel->Close();
  }
  waker_.Wake();
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

absl::Status SupervisedPlugin::End(Clock::time_point until) {
  Reach(Goal::kEnd, until);
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

void SupervisedPlugin::Leave() { Reach(Goal::kLeave, Clock::time_point::max()); }

std::string SupervisedPlugin::Words() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto now = Clock::now();
  std::string words;
  if (!status_.serving.empty()) words = wanted_.run ? "runs as " + status_.handle : "";
  const auto add = [&words](const std::string& more) { words += (words.empty() ? "" : "; ") + more; };
  if (status_.starting_since) add("starting for " + Seconds(now - *status_.starting_since));
  if (status_.restarts > 0) add(fmt::format("restarted {} times", status_.restarts));
  if (status_.next_try) add("next try in " + Seconds(*status_.next_try - now));
  if (!status_.words.empty()) words += (words.empty() ? "" : ": ") + status_.words;
  return words;
}

SupervisedPlugin::Goal SupervisedPlugin::goal() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return goal_;
}

PluginRecord SupervisedPlugin::TakeWanted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(hurry_, false)) next_try_ = Clock::now();
  return wanted_;
}

// The thread

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
  if (goal() != Goal::kEnd) return;
  const absl::Status ended = RetireAll();
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = ended;
}

void SupervisedPlugin::Attend() {
  const PluginRecord wanted = TakeWanted();
  const std::string version = VersionOf(wanted);
  if (version != std::exchange(attended_, version)) backoff_ = settings_.first_backoff;
  if (starting_ && starting_->version() != version) (void)Retire(std::move(starting_));
  if (serving_) AttendServing();
  if (starting_) {
    AttendStarting();
  } else if ((!serving_ || serving_->version() != version) && Clock::now() >= next_try_) {
    Begin(wanted);
  }
}

Clock::time_point SupervisedPlugin::NextLook() const {
  if (starting_) return starting_->next_look;
  if (!serving_) return next_try_;
  return serving_->version() == attended_ ? serving_->next_look : std::min(serving_->next_look, next_try_);
}

void SupervisedPlugin::Begin(const PluginRecord& wanted) {
  auto instance = Launch(wanted);
  if (!instance.ok()) {
    Tell("failed", true, nullptr, "It cannot be started: " + Message(instance.status()));
    BackOff(VersionOf(wanted), Message(instance.status()));
    return;
  }
  starting_ = *std::move(instance);
  starting_->tell_at = Clock::now() + settings_.tell_interval;
  if (starting_->IsOurs()) {
    starting_->ready_by = Clock::now() + wanted.run->start_deadline;
    Tell("starting", false, starting_.get(), fmt::format("Started as {}.", starting_->Handle()));
  }
  Show();
  AttendStarting();
}

absl::StatusOr<std::unique_ptr<SupervisedInstance>> SupervisedPlugin::Launch(const PluginRecord& wanted) {
  if (!wanted.run) return std::make_unique<SupervisedInstance>(wanted, around_.connect(wanted.endpoint));
  MOORING_ASSIGN_OR_RETURN(InstanceDirectory directory,
                           MakeInstanceDirectory(settings_.socket_root, name_, *wanted.run));
  auto process =
      LauncherOf(directory.kind).Launch(SpecOf(directory, *wanted.run), Clock::now() + wanted.run->start_deadline);
  if (!process.ok()) {
    (void)RemoveInstanceDirectory(directory.path);  // the launch's error is the one to tell
    return process.status();
  }
  auto channel = around_.connect(directory.SocketPath());
  return std::make_unique<SupervisedInstance>(std::move(directory), *std::move(process), std::move(channel));
}

absl::StatusOr<Introduction> SupervisedPlugin::Greet(SupervisedInstance& instance) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (goal_ != Goal::kSupervise) return absl::CancelledError("the manager is stopping");
    channels_.push_back(instance.shared_channel());
  }
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
    Tell("waiting", true, &instance, fmt::format("Waited for {} so far: {}", Seconds(now - instance.since), words));
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
  Tell("ready", false, starting_.get(), fmt::format("Ready at {}.", starting_->Handle()));
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
  if (before) (void)Retire(std::move(before));
}

void SupervisedPlugin::AttendServing() {
  if (!serving_->IsAlive()) return GiveUpServing(serving_->Words());
  // One that is about to be replaced holds nobody up.
  if (starting_ || serving_->version() != attended_ || Clock::now() < serving_->next_look) return;
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
    Tell("health", !probed.ok(), &instance, probed.ok() ? "Healthy again." : "Not healthy: " + words);
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
  if (instance.IsOurs() && sick >= settings_.sick_for) {
    GiveUpServing(fmt::format("it was not healthy for {}: {}", Seconds(sick), words));
  }
}

void SupervisedPlugin::GiveUpServing(const std::string& why) {
  Tell("ended", true, serving_.get(), "Given up: " + why);
  const std::string version = serving_->version();
  if (Clock::now() - serving_->since > settings_.longest_backoff) backoff_ = settings_.first_backoff;
  (void)Retire(std::move(serving_));
  if (!starting_ && version == attended_) BackOff(version, why);
}

void SupervisedPlugin::FailStarting(const std::string& words) {
  const std::string version = starting_->version();
  Tell("failed", true, starting_.get(), "It did not become ready: " + words);
  (void)Retire(std::move(starting_));
  BackOff(version, words);
}

void SupervisedPlugin::BackOff(const std::string& version, const std::string& words) {
  next_try_ = Clock::now() + backoff_;
  backoff_ = std::min(2 * backoff_, settings_.longest_backoff);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++status_.restarts;
  status_.failed = version;
  status_.words = words;
  changed_.notify_all();
}

// Its error is told here, since most have nobody to give it to: what cannot be ended is found again at the next start.
absl::Status SupervisedPlugin::Retire(std::unique_ptr<SupervisedInstance> instance) {
  Clock::time_point until = Clock::now() + settings_.end_time;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    until = std::min(until, end_until_);
  }
  absl::Status status = instance->Deregister(around_.registry);
  status.Update(instance->End(until));
  if (!status.ok()) Tell("failed", true, instance.get(), "It could not be ended: " + Message(status));
  if (status.ok() && instance->IsOurs()) Tell("stopped", false, instance.get(), instance->Handle() + " has ended.");
  return status;
}

absl::Status SupervisedPlugin::RetireAll() {
  absl::Status first;
  for (auto* instance : {&serving_, &starting_}) {
    if (*instance) first.Update(Retire(std::move(*instance)));
  }
  Show();
  return first;
}

LaunchSpec SupervisedPlugin::SpecOf(const InstanceDirectory& directory, const PluginRecord::Run& run) const {
  return {.plugin = name_,
          .instance_id = directory.id,
          .run = run,
          .socket_directory = directory.path,
          .root = settings_.root};
}

Launcher& SupervisedPlugin::LauncherOf(PluginRecord::Run::Kind kind) const {
  return kind == PluginRecord::Run::Kind::kContainer ? around_.container : around_.exec;
}

void SupervisedPlugin::Tell(const char* kind, bool bad, const SupervisedInstance* instance, std::string text) const {
  Event event;
  event.bad = bad;
  event.kind = kind;
  event.plugin = name_;
  if (instance != nullptr) event.instance = instance->id();
  event.text = std::move(text);
  around_.events.Add(std::move(event));
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
