// The start of a server program: its flags, its log, its signals.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/exception.h"
#include "base/log.h"

namespace CLI {
class App;
}

namespace mooring {

// Adds a flag that is also an environment variable.
void AddTextFlag(CLI::App& app, const char* name, std::string& value, const char* environment, const char* help);

// A check of CLI11 for the text of a flag. Empty: it is right. A blank at the beginning or end is always a mistake,
// which an error about the value would hardly show.
std::string NoOuterBlanks(const std::string& value);

// Adds --version and parses. CANCELLED: --help or --version was given; the message is the text to print.
// INVALID_ARGUMENT: the message says in one line what is wrong. A variable MOORING_… that differs in one letter from
// one of the program is wrong, too.
absl::Status ParseFlags(CLI::App& app, int argc, const char* const* argv);

// INVALID_ARGUMENT: "--mode 'x': use node, controller or monolith". The functions below return such errors.
absl::Status WrongFlag(std::string_view flag, std::string_view value, std::string_view rule);

absl::StatusOr<std::string> CheckChoice(std::string_view flag, const std::string& value,
                                        const std::vector<std::string>& choices);
absl::StatusOr<std::string> CheckSocket(std::string_view flag, const std::string& endpoint);  // an absolute path
absl::StatusOr<std::int64_t> ParseNumber(std::string_view flag, const std::string& text, std::int64_t most,
                                         std::string_view rule);
absl::StatusOr<std::chrono::seconds> ParseSeconds(std::string_view flag, const std::string& text);  // at most a day

// Blocks SIGTERM and SIGINT. Call it before the first thread starts: every thread inherits the mask, and only sigwait()
// receives the signals.
sigset_t BlockStopSignals();

// Prints the error and returns the exit code.
int FailProgram(std::string_view program, const absl::Status& status);

// Sets up the heap, the locks, the standard files and the signals of a server.
void PrepareProcess();

// Prints the text of --help or --version and returns 0, or prints the error and returns 1.
int EndWithoutConfig(std::string_view program, const absl::Status& status);

// main() of a server: parses the flags, sets up the log, and runs.
template <typename Config>
int RunServer(std::string_view program, int argc, char** argv,
              absl::StatusOr<Config> (*parse)(int argc, const char* const* argv), int (*run)(const Config&)) {
  PrepareProcess();
  const absl::StatusOr<Config> config = parse(argc, argv);
  if (!config.ok()) return EndWithoutConfig(program, config.status());
  const absl::Status logs = log::Setup(config->log_level, config->log_format);
  if (!logs.ok()) return FailProgram(program, logs);
  try {
    return run(*config);
  } catch (const std::exception& error) {
    return FailProgram(program, ExceptionStatus(error));
  }
}

}  // namespace mooring
