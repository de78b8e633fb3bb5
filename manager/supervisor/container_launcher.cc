#include "manager/supervisor/container_launcher.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "manager/supervisor/engine_client.h"
#include "manager/supervisor/plugin_container.h"

namespace mooring::manager {
namespace {

using nlohmann::json;

// Engines allow letters, digits and "_.-". Which instance it is, the digits at the end of its id tell.
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

// What every plugin has, at its own path, and what this one is given.
json Mounts(const LaunchSpec& spec) {
  const auto own = [](const std::string& path, Propagation propagation) {
    return MountOf({path, path, /*read_only=*/false, propagation});
  };
  json mounts = {own("/dev", Propagation::kPrivate), own(spec.socket_directory, Propagation::kPrivate),
                 own(spec.root, Propagation::kShared)};
  for (const PluginRecord::Bind& bind : spec.run.binds) mounts.push_back(MountOf(bind));
  return mounts;
}

// Those of the manager: an engine without CAP_SYS_RESOURCE may not raise them, and Podman tries.
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
  for (const auto& [name, value] : spec.run.environment) environment.push_back(fmt::format("{}={}", name, value));
  environment.push_back(fmt::format("CSI_ENDPOINT=unix://{}/csi.sock", spec.socket_directory));
  return environment;
}

json ContainerOf(const LaunchSpec& spec) {
  json body = {
      {"Image", spec.run.image},
      {"Env", Environment(spec)},
      {"Labels", {{"mooring.plugin", spec.plugin}, {"mooring.instance", spec.instance_id}}},
      {"HostConfig", {{"Privileged", true}, {"NetworkMode", "host"}, {"Mounts", Mounts(spec)}, {"Ulimits", Limits()}}},
  };
  if (!spec.run.command.empty()) body["Cmd"] = spec.run.command;
  return body;
}

// The engine answers 200 at once and tells of errors in the lines that follow.
absl::Status PullError(const std::string& image, const std::string& progress) {
  std::istringstream lines(progress);
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (step.is_object() && step.contains("error")) {
      return Unavailable(fmt::format("pull image {}: {}", Quote(image), Quote(step["error"].dump(), 512)));
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
  // Without a tag the engine would take all there are.
  const std::size_t name = image.rfind('/') == std::string::npos ? 0 : image.rfind('/');
  const bool tagged = image.find_first_of(":@", name) != std::string::npos;
  const std::string path =
      fmt::format("/images/create?fromImage={}", PercentEncode(tagged ? image : image + ":latest"));
  MOORING_ASSIGN_OR_RETURN(const std::string progress,
                           engine.PostForProgress("pull image " + Quote(image), path, until, spec.stopped));
  return PullError(image, progress);
}

}  // namespace

ContainerLauncher::ContainerLauncher(std::string default_engine) : default_engine_(std::move(default_engine)) {}

std::string ContainerLauncher::EngineOf(const LaunchSpec& spec) const {
  return spec.run.engine.empty() ? default_engine_ : spec.run.engine;
}

absl::StatusOr<std::unique_ptr<Launched>> ContainerLauncher::Launch(const LaunchSpec& spec, Clock::time_point until) {
  if (spec.run.image.empty()) return InvalidArgument("no image is given for plugin " + Quote(spec.plugin));
  const EngineClient engine(EngineOf(spec));
  MOORING_RETURN_IF_ERROR(EnsureImage(engine, spec, until));
  const std::string name = ContainerName(spec);
  auto container = std::make_unique<PluginContainer>(engine, name);
  absl::Status started =
      engine.Post("create container " + name, "/containers/create?name=" + name, ContainerOf(spec), until).status();
  if (started.ok()) started = container->Start(until);
  if (started.ok()) return container;
  // Also where the create has failed: its answer may be lost only. Where the engine has no answer to this either, it is
  // given as launched, so that it is ended when the engine is there again.
  constexpr auto kTimeToRemove = std::chrono::seconds(15);
  if (!container->Remove(Clock::now() + kTimeToRemove).ok()) return container;
  return started;
}

absl::StatusOr<std::unique_ptr<Launched>> ContainerLauncher::Adopt(const LaunchSpec& spec) {
  constexpr auto kTimeToLook = std::chrono::seconds(5);
  auto container = std::make_unique<PluginContainer>(EngineClient(EngineOf(spec)), ContainerName(spec));
  const absl::Status there = container->Inspect(Clock::now() + kTimeToLook).status();
  if (absl::IsNotFound(there)) return there;
  return container;  // where the engine does not answer now, it will tell later
}

}  // namespace mooring::manager
