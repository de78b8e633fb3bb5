#include "manager/launch/plugin_container.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/launch/json_text.h"
#include "manager/launch/process_log.h"

namespace mooring::manager {
namespace {

constexpr auto kTimeToInspect = std::chrono::seconds(5);
constexpr auto kTimeToEnd = std::chrono::seconds(15);  // for the engine, once it has sent SIGKILL

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

}  // namespace mooring::manager
