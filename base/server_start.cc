#include "base/server_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "base/file/path.h"
#include "base/memory.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "base/version.h"

namespace mooring {

void AddTextFlag(CLI::App& app, const char* name, std::string& value, const char* environment, const char* help) {
  app.add_option(name, value, help)->envname(environment)->type_name("TEXT")->capture_default_str();
}

absl::Status ParseFlags(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("--version", fmt::format("{} {} ({})", app.get_name(), Version(), Commit()),
                       "Print the version and exit");
  try {
    app.parse(argc, argv);
    return absl::OkStatus();
  } catch (const CLI::CallForHelp&) {
    return absl::CancelledError(app.help().c_str());
  } catch (const CLI::CallForVersion& version) {
    return absl::CancelledError(version.what());
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    return InvalidArgument("{} (see --help)", text.substr(0, text.find('\n')));
  }
}

absl::Status WrongFlag(std::string_view flag, std::string_view value, std::string_view rule) {
  return InvalidArgument("{} {}: {}", flag, Quote(value), rule);
}

absl::StatusOr<std::string> CheckChoice(std::string_view flag, const std::string& value,
                                        const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  return WrongFlag(flag, value, fmt::format("use one of {}", fmt::join(choices, ", ")));
}

absl::StatusOr<std::string> CheckSocket(std::string_view flag, const std::string& endpoint) {
  absl::StatusOr<std::string> path = ParseSocketPath(endpoint);
  if (path.ok()) path = NormalisePath("the path", *path);
  return path.ok() ? path : WrongFlag(flag, endpoint, Message(path.status()));
}

absl::StatusOr<std::int64_t> ParseNumber(std::string_view flag, const std::string& text, std::int64_t most,
                                         std::string_view rule) {
  const std::optional<std::int64_t> number = ParseWhole<std::int64_t>(text);
  if (number && *number >= 0 && *number <= most) return *number;
  return WrongFlag(flag, text, rule);
}

absl::StatusOr<std::chrono::seconds> ParseSeconds(std::string_view flag, const std::string& text) {
  constexpr std::int64_t kDay = 24 * 60 * 60;
  MOORING_ASSIGN_OR_RETURN(const std::int64_t seconds,
                           ParseNumber(flag, text, kDay, "use a whole number of seconds, at most 86400 (a day)"));
  return std::chrono::seconds(seconds);
}

sigset_t BlockStopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int FailProgram(std::string_view program, const absl::Status& status) {
  fmt::print(stderr, "{}: {}\n", program, Message(status));
  return 1;
}

// Debian's abseil looks for deadlocks at every lock, which takes a tenth of the time of a call.
void PrepareProcess() {
  BoundHeap();
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

int EndWithoutConfig(std::string_view program, const absl::Status& status) {
  if (!absl::IsCancelled(status)) return FailProgram(program, status);
  fmt::print("{}\n", Message(status));
  return 0;
}

}  // namespace mooring
