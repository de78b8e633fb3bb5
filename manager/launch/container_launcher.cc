#include "manager/launch/container_launcher.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/launch/engine_client.h"
#include "manager/launch/instance_directory.h"
#include "manager/launch/launcher.h"
#include "manager/launch/process_log.h"

namespace mooring::manager {
namespace {

constexpr auto kTimeToInspect = std::chrono::seconds(5);
constexpr auto kTimeToEnd = std::chrono::seconds(15);  // for the engine, once it has sent SIGKILL, or to remove

// Docker and Podman leave out different members, or set them to null.
template <typename T>
T Member(const nlohmann::json& object, const char* name, T otherwise) {
  if (!object.is_object()) return otherwise;
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, bool>) return found->is_boolean() ? found->get<bool>() : otherwise;
  if constexpr (std::is_same_v<T, int>) return found->is_number_integer() ? found->get<int>() : otherwise;
}

nlohmann::json StateOf(const nlohmann::json& container) {
  const auto found = container.find("State");
  return found == container.end() ? nlohmann::json::object() : *found;
}

std::string HowItEnded(const nlohmann::json& state) {
  std::string how = fmt::format("ended with exit code {}", Member(state, "ExitCode", 0));
  if (Member(state, "OOMKilled", false)) how += ", because it used more memory than allowed";
  if (const std::string error = Text(state, "Error"); !error.empty()) how += ": " + Quote(error);
  return how;
}

using nlohmann::json;

constexpr char kManagerLabel[] = "mooring.manager";
constexpr char kRuntimeLabel[] = "mooring.runtime";
constexpr char kPluginLabel[] = "mooring.plugin";
constexpr char kInstanceLabel[] = "mooring.instance";

// Engines allow letters, digits and "_.-". The digits at the end of the instance id keep the name unique.
std::string ContainerName(const LaunchSpec& spec) {
  std::string name = "mooring-" + spec.instance_id;
  for (char& c : name) {
    const bool allowed =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!allowed) c = '_';
  }
  return name;
}

const char* WordOf(Propagation propagation) {
  switch (propagation) {
    case Propagation::kInherit:
    case Propagation::kPrivate:
      return "rprivate";
    case Propagation::kSlave:
      return "rslave";
    case Propagation::kShared:
      return "rshared";
  }
  return "rprivate";
}

json MountOf(const PluginRecord::Bind& bind) {
  return {{"Type", "bind"},
          {"Source", bind.source},
          {"Target", bind.target},
          {"ReadOnly", bind.read_only},
          {"BindOptions", {{"Propagation", WordOf(bind.propagation)}}}};
}

// The binds of every plugin, each at its own path, and those of this run.
json Mounts(const LaunchSpec& spec) {
  const auto own = [](const std::string& path, Propagation propagation) {
    return MountOf({path, path, /*read_only=*/false, propagation});
  };
  json mounts = {own("/dev", Propagation::kPrivate), own(spec.socket_directory, Propagation::kPrivate),
                 own(spec.root, Propagation::kShared)};
  for (const PluginRecord::Bind& bind : spec.run.binds) mounts.push_back(MountOf(bind));
  return mounts;
}

// The manager's own limits: Podman would raise them, which an engine without CAP_SYS_RESOURCE may not.
json Limits() {
  json limits = json::array();
  for (const auto& [name, resource] : {std::pair("nofile", RLIMIT_NOFILE), std::pair("nproc", RLIMIT_NPROC)}) {
    rlimit limit = {};
    if (::getrlimit(resource, &limit) != 0) continue;
    const auto number = [](rlim_t value) { return value == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(value); };
    limits.push_back({{"Name", name}, {"Soft", number(limit.rlim_cur)}, {"Hard", number(limit.rlim_max)}});
  }
  return limits;
}

json Environment(const LaunchSpec& spec) {
  json environment = json::array();
  if (!spec.run.environment.contains(kMountRootVariable)) {
    environment.push_back(fmt::format("{}={}", kMountRootVariable, spec.root));
  }
  for (const auto& [name, value] : spec.run.environment) environment.push_back(fmt::format("{}={}", name, value));
  environment.push_back("CSI_ENDPOINT=" + EndpointOf(spec.socket_directory + "/csi.sock"));
  return environment;
}

json Labels(const LaunchSpec& spec, const ContainerOwner& owner) {
  return {{kManagerLabel, owner.id},          {kRuntimeLabel, owner.socket_root},
          {"mooring.host", owner.host},       {kPluginLabel, spec.plugin},
          {kInstanceLabel, spec.instance_id}, {"mooring.generation", std::to_string(spec.run.generation)}};
}

json ContainerOf(const LaunchSpec& spec, const ContainerOwner& owner) {
  json body = {
      {"Image", spec.run.image},
      {"Env", Environment(spec)},
      {"Labels", Labels(spec, owner)},
      {"HostConfig", {{"Privileged", true}, {"NetworkMode", "host"}, {"Mounts", Mounts(spec)}, {"Ulimits", Limits()}}},
  };
  if (!spec.run.command.empty()) body["Cmd"] = spec.run.command;
  return body;
}

// The engine answers 200 at once, and reports errors in the lines that follow.
absl::Status PullError(const std::string& image, const std::string& progress) {
  std::istringstream lines(progress);
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (step.is_object() && step.contains("error")) {
      return Unavailable("pull image {}: {}", Quote(image), Quote(step["error"].dump(), 512));
    }
  }
  return absl::OkStatus();
}

absl::Status EnsureImage(const EngineClient& engine, const LaunchSpec& spec, Clock::time_point until) {
  const std::string& image = spec.run.image;
  const absl::Status there =
      engine.Get("look for image " + Quote(image), fmt::format("/images/{}/json", PercentEncode(image)), until)
          .status();
  if (!absl::IsNotFound(there)) return there;
  // Without a tag the engine would pull all tags.
  const std::size_t name = image.rfind('/') == std::string::npos ? 0 : image.rfind('/');
  const bool tagged = image.find_first_of(":@", name) != std::string::npos;
  const std::string path =
      fmt::format("/images/create?fromImage={}", PercentEncode(tagged ? image : image + ":latest"));
  MOORING_ASSIGN_OR_RETURN(const std::string progress, engine.Post("pull image " + Quote(image), path, nullptr, until));
  return PullError(image, progress);
}

// Gives the ids of the strays of `plugin`; empty: of all plugins. The labels are checked here as well, because an
// engine that ignores the filter would give containers of other owners.
absl::StatusOr<std::vector<std::string>> FindStrays(const EngineClient& engine, const ContainerOwner& owner,
                                                    const std::string& plugin, Clock::time_point until) {
  const std::string what = "list the containers that an earlier instance left";
  const json filters = {{"label", {fmt::format("{}={}", kManagerLabel, owner.id)}}};
  MOORING_ASSIGN_OR_RETURN(const std::string text,
                           engine.Get(what, "/containers/json?all=1&filters=" + PercentEncode(filters.dump()), until));
  MOORING_ASSIGN_OR_RETURN(const json containers, ParseEngineList(what, text));
  std::vector<std::string> strays;
  for (const json& container : containers) {
    const json labels = container.value("Labels", json());
    if (owner.id.empty() || Text(labels, kManagerLabel) != owner.id) continue;
    if (Text(labels, kRuntimeLabel) != owner.socket_root) continue;
    if (!plugin.empty() && Text(labels, kPluginLabel) != plugin) continue;
    if (!IsInstanceOnRecord(owner.socket_root, Text(labels, kInstanceLabel))) strays.push_back(Text(container, "Id"));
  }
  return strays;
}

absl::Status EndStraysOf(const EngineClient& engine, const ContainerOwner& owner, const std::string& plugin,
                         Clock::time_point until, const std::stop_token& stop) {
  constexpr auto kTimeToObey = std::chrono::seconds(10);  // from SIGTERM to SIGKILL
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> strays, FindStrays(engine, owner, plugin, until));
  absl::Status first;
  for (const std::string& id : strays) {
    const absl::Status ended = PluginContainer(engine, id).End(Clock::now() + kTimeToObey, stop);
    first.Update(Annotate(ended, "remove the container of an instance that is gone"));
    if (ended.ok()) log::Info("removed a container whose instance is gone", {{"container", id}});
  }
  return first;
}

}  // namespace

std::string TextOfFrames(std::string_view frames) {
  constexpr std::size_t kHeader = 8;
  std::string text;
  while (frames.size() >= kHeader) {
    std::size_t size = 0;
    for (const char byte : frames.substr(kHeader / 2, kHeader / 2)) size = size << 8 | static_cast<unsigned char>(byte);
    frames.remove_prefix(kHeader);
    text += frames.substr(0, size);
    frames.remove_prefix(std::min(size, frames.size()));
  }
  return text;
}

PluginContainer::PluginContainer(EngineClient engine, std::string name)
    : engine_(std::move(engine)), name_(std::move(name)), path_("/containers/" + PercentEncode(name_)) {}

absl::StatusOr<nlohmann::json> PluginContainer::Inspect(Clock::time_point until) const {
  const std::string what = "inspect container " + name_;
  MOORING_ASSIGN_OR_RETURN(const std::string text, engine_.Get(what, path_ + "/json", until));
  return ParseEngineJson(what, text);
}

absl::Status PluginContainer::Start(Clock::time_point until) const {
  return engine_.Post("start container " + name_, path_ + "/start", nullptr, until).status();
}

bool PluginContainer::IsAlive() {
  const auto container = Inspect(Clock::now() + kTimeToInspect);
  if (!container.ok()) return !absl::IsNotFound(container.status());
  return Member(StateOf(*container), "Running", true);
}

std::string PluginContainer::LastLines() const {
  const auto log = engine_.Get("read the log of container " + name_, path_ + "/logs?stdout=1&stderr=1&tail=5",
                               Clock::now() + kTimeToInspect);
  return log.ok() ? LastLinesOf(TextOfFrames(*log)) : "";
}

std::string PluginContainer::Describe() {
  const auto container = Inspect(Clock::now() + kTimeToInspect);
  if (!container.ok()) return Message(container.status());
  const nlohmann::json state = StateOf(*container);
  const std::string what =
      fmt::format("container {} {}", name_, Member(state, "Running", true) ? "runs" : HowItEnded(state));
  const std::string lines = LastLines();
  return lines.empty() ? what : fmt::format("{}; its last output: {}", what, lines);
}

absl::Status PluginContainer::Remove(Clock::time_point until) const {
  // v=1 removes its anonymous volumes, which no later container uses.
  const absl::Status removed = engine_.Delete("remove container " + name_, path_ + "?force=1&v=1", until);
  if (absl::IsNotFound(removed)) return absl::OkStatus();
  // A conflict: another client is removing it. Wait for that, because the next container may need its resources.
  return absl::IsAlreadyExists(removed) && IsGoneBy(until) ? absl::OkStatus() : removed;
}

// Polls, because no call that waits for a removal works with all engines.
bool PluginContainer::IsGoneBy(Clock::time_point until) const {
  constexpr auto kInterval = std::chrono::milliseconds(50);
  for (;;) {
    const absl::Status there = Inspect(std::min(until, Clock::now() + kTimeToInspect)).status();
    if (absl::IsNotFound(there)) return true;
    if (absl::IsCancelled(there) || Clock::now() + kInterval >= until) return false;
    std::this_thread::sleep_for(kInterval);
  }
}

absl::Status PluginContainer::End(Clock::time_point until, const std::stop_token& stop) {
  const PluginContainer stoppable(EngineClient(engine_.socket_path(), stop), name_);
  const Clock::time_point kill_at = std::max(until, Clock::now());
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(kill_at - Clock::now());
  const std::string path = fmt::format("{}/stop?t={}", path_, std::max<std::int64_t>(left.count(), 0));
  const absl::Status stopped =
      stoppable.engine_.Post("stop container " + name_, path, nullptr, kill_at + kTimeToEnd).status();
  if (absl::IsNotFound(stopped)) return absl::OkStatus();
  if (absl::IsUnavailable(stopped) || absl::IsCancelled(stopped)) return stopped;
  return stoppable.Remove(Clock::now() + kTimeToEnd);  // by force, if it could not be stopped
}

std::string PluginContainer::Handle() const { return "container " + name_; }

ContainerLauncher::ContainerLauncher(std::string default_engine, ContainerOwner owner)
    : default_engine_(std::move(default_engine)), owner_(std::move(owner)) {}

std::string ContainerLauncher::EngineOf(const std::string& engine) const {
  return engine.empty() ? default_engine_ : engine;
}

absl::StatusOr<std::unique_ptr<Launched>> ContainerLauncher::Launch(const LaunchSpec& spec, Clock::time_point until) {
  if (spec.run.image.empty()) return InvalidArgument("no image is given for plugin " + Quote(spec.plugin));
  const EngineClient engine(EngineOf(spec.run.engine));
  const EngineClient stoppable(engine.socket_path(), spec.stop);
  MOORING_RETURN_IF_ERROR(EndStraysOf(stoppable, owner_, spec.plugin, until, spec.stop));
  MOORING_RETURN_IF_ERROR(EnsureImage(stoppable, spec, until));
  const std::string name = ContainerName(spec);
  auto container = std::make_unique<PluginContainer>(engine, name);
  absl::Status started =
      stoppable.Post("create container " + name, "/containers/create?name=" + name, ContainerOf(spec, owner_), until)
          .status();
  if (started.ok()) started = PluginContainer(stoppable, name).Start(until);
  // After a cancelled call the container may exist. It is ended with its plugin, or the next manager adopts it.
  if (started.ok() || absl::IsCancelled(started)) return container;
  // The container may exist although its creation failed, because the answer may have been lost. If the engine does not
  // answer the removal either, the container counts as launched, so that it is ended once the engine is back.
  if (!container->Remove(Clock::now() + kTimeToEnd).ok()) return container;
  return started;
}

absl::StatusOr<std::unique_ptr<Launched>> ContainerLauncher::Adopt(const LaunchSpec& spec) {
  auto container = std::make_unique<PluginContainer>(EngineClient(EngineOf(spec.run.engine)), ContainerName(spec));
  const absl::Status there = container->Inspect(Clock::now() + kTimeToInspect).status();
  if (absl::IsNotFound(there)) return there;
  return container;  // also if the engine does not answer now: it will later
}

absl::Status ContainerLauncher::EndStrays(const std::string& engine, Clock::time_point until, std::stop_token stop) {
  return EndStraysOf(EngineClient(EngineOf(engine), stop), owner_, /*plugin=*/"", until, stop);
}

}  // namespace mooring::manager
