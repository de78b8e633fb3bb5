#include "base/server_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/file/path.h"
#include "base/host.h"
#include "base/memory.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "base/text/whole_number.h"
#include "base/version.h"

namespace mooring {
namespace {

// Whether one letter too many, too few or wrong, or two that are swapped, make the one from the other.
bool AreOneMistakeApart(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  if (a == b || a.size() > b.size() + 1) return false;
  const auto same = static_cast<std::size_t>(std::mismatch(b.begin(), b.end(), a.begin()).first - b.begin());
  const std::string_view x = a.substr(same), y = b.substr(same);
  if (a.size() > b.size()) return x.substr(1) == y;
  const bool swapped = x.size() > 1 && x[0] == y[1] && x[1] == y[0] && x.substr(2) == y.substr(2);
  return swapped || x.substr(1) == y.substr(1);
}

// The reason of the first check that refuses the value.
std::string Refusal(CLI::Option& option, std::string value) {
  std::string why;
  try {
    for (int check = 0; why.empty(); ++check) why = (*option.get_validator(check))(value);
  } catch (const CLI::Error&) {  // there are no more checks
  }
  return Visible(why.empty() ? "its value is refused" : why);
}

// CLI11 2.4 and later ignore a variable whose value a check refuses. Earlier versions have told it before.
absl::Status CheckValue(CLI::Option& option) {
  const std::string& name = option.get_envname();
  const char* const value = name.empty() ? nullptr : std::getenv(name.c_str());
  if (option.count() > 0 || value == nullptr || *value == '\0') return absl::OkStatus();
  return InvalidArgument("{}: {} (see --help)", name, Refusal(option, value));
}

absl::Status CheckVariables(CLI::App& app) {
  std::vector<std::string> known;
  for (CLI::Option* option : app.get_options()) {
    MOORING_RETURN_IF_ERROR(CheckValue(*option));
    known.push_back(option->get_envname());
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("MOORING_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    for (const std::string& other : known) {
      if (!AreOneMistakeApart(name, other)) continue;
      return InvalidArgument("the variable {} is unknown: is {} meant?", Quote(name), other);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddTextFlag(CLI::App& app, const char* name, std::string& value, const char* environment, const char* help) {
  app.add_option(name, value, help)
      ->envname(environment)
      ->type_name("TEXT")
      ->check(NoOuterBlanks)
      ->capture_default_str();
}

std::string NoOuterBlanks(const std::string& value) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const bool begins = value.find_first_of(kBlanks) == 0;
  const bool ends = !value.empty() && value.find_last_of(kBlanks) == value.size() - 1;
  if (!begins && !ends) return "";
  return fmt::format("{} {} with a blank: leave it out", Quote(value), begins ? "begins" : "ends");
}

absl::Status ParseFlags(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("--version", fmt::format("{} {} ({})", app.get_name(), Version(), Commit()),
                       "Print the version and exit");
  try {
    app.parse(argc, argv);
    return CheckVariables(app);
  } catch (const CLI::CallForHelp&) {
    return absl::CancelledError(app.help().c_str());
  } catch (const CLI::CallForVersion& version) {
    return absl::CancelledError(version.what());
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    return InvalidArgument("{} (see --help)", Visible(text.substr(0, text.find('\n'))));
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
  FillStandardFiles();
  IgnoreWriteSignals();
  BoundHeap();
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

int EndWithoutConfig(std::string_view program, const absl::Status& status) {
  if (!absl::IsCancelled(status)) return FailProgram(program, status);
  fmt::print("{}\n", Message(status));
  return 0;
}

}  // namespace mooring
