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
  if (leaving_) return Stopping();
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
    channels = channels_;
    changed_.notify_all();
  }
  for (const auto& weak : channels) {
    if (const auto channel = weak.lock()) channel->Close();
  }
  waker_.Wake();
}

void SupervisedPlugin::Join() {
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

absl::Status SupervisedPlugin::End(Clock::time_point until) {
  int tried = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tried = tries_to_end_;
    hurry_ = true;
  }
  Reach(Goal::kEnd, until);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return over_ || tries_to_end_ > tried; });
  if (tries_to_end_ == 0) {
    return Unavailable(fmt::format("plugin {} was not ended, for the manager is stopping", Quote(name_)));
  }
  return ended_;
}

void SupervisedPlugin::BeginLeave() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    leaving_ = true;
  }
  Reach(Goal::kLeave, Clock::time_point::max());
}

void SupervisedPlugin::Leave() {
  BeginLeave();
  Join();
}

bool SupervisedPlugin::IsOver() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_;
}

bool SupervisedPlugin::CouldNotBeEnded() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !over_ && tries_to_end_ > 0;
}

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
  if (goal() == Goal::kEnd) WorkOnEnd();
  const std::lock_guard<std::mutex> lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

// Tried once, though the manager is stopping; and on and on where it is not.
void SupervisedPlugin::WorkOnEnd() {
  (void)TakeWanted();
  absl::Status ended = RetireAll();
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = unended_.empty() || leaving_;
      ended_ = ended;
      ++tries_to_end_;
      changed_.notify_all();
      if (over_) return;
    }
    bool hurry = false;
    while (!hurry && Clock::now() < end_again_at_) {
      waker_.Wait(end_again_at_, {});
      const std::lock_guard<std::mutex> lock(mutex_);
      if (leaving_) return;
      hurry = std::exchange(hurry_, false);
    }
    ended = EndAgain();
  }
}

void SupervisedPlugin::Attend() {
  const PluginRecord wanted = TakeWanted();
  const std::string version = VersionOf(wanted);
  if (version != std::exchange(attended_, version)) backoff_ = settings_.first_backoff;
  if (starting_ && starting_->version() != version) (void)Retire(std::move(starting_));
  if (Clock::now() >= end_again_at_) (void)EndAgain();
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
  Clock::time_point look = end_again_at_;
  if (serving_) look = std::min(look, serving_->next_look);
  if (starting_) return std::min(look, starting_->next_look);
  return serving_ && serving_->version() == attended_ ? look : std::min(look, next_try_);
}

// Two processes of one plugin are too many where the one before can be neither used nor ended.
bool SupervisedPlugin::MayBegin(const PluginRecord& wanted) {
  if (unended_.empty() || !wanted.run) return true;
  const auto words = fmt::format("{} could not be ended yet, and no other is started beside it: see the events",
                                 unended_.front()->Handle());
  next_try_ = end_again_at_;
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.failed = VersionOf(wanted);
  status_.words = words;
  changed_.notify_all();
  return false;
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
  auto channel = around_.connect(socket_path);
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
  // One of an earlier version could not be started again: its successor replaces it, once that is ready.
  if (instance.IsOurs() && instance.version() == attended_ && sick >= settings_.sick_for) {
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

// Its error is told here, since most have nobody to give it to; what could not be ended is tried again.
absl::Status SupervisedPlugin::Retire(std::unique_ptr<SupervisedInstance> instance) {
  absl::Status status = TryToEnd(*instance);
  if (status.ok()) return status;
  Tell("failed", true, instance.get(), "It could not be ended, which is tried again: " + Message(status));
  unended_.push_back(std::move(instance));
  end_again_at_ = Clock::now() + settings_.end_again;
  return status;
}

absl::Status SupervisedPlugin::TryToEnd(SupervisedInstance& instance) {
  Clock::time_point until = Clock::now() + settings_.end_time;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    until = std::min(until, end_until_);
  }
  absl::Status status = instance.Deregister(around_.registry);
  status.Update(instance.End(until));
  if (status.ok() && instance.IsOurs()) Tell("stopped", false, &instance, instance.Handle() + " has ended.");
  return status;
}

absl::Status SupervisedPlugin::EndAgain() {
  absl::Status first;
  std::erase_if(unended_, [&](const auto& instance) {
    const absl::Status status = TryToEnd(*instance);
    first.Update(status);
    return status.ok();
  });
  end_again_at_ = unended_.empty() ? Clock::time_point::max() : Clock::now() + settings_.end_again;
  return first;
}

absl::Status SupervisedPlugin::RetireAll() {
  absl::Status first = EndAgain();
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
          .root = settings_.root,
          .stopped = [this] { return goal() != Goal::kSupervise; }};
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
