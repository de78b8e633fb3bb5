// The output streams and the exit status of a command, and its errors.
//
// There are three kinds of errors. If the server refused a call, the status carries the name of the call.
// INVALID_ARGUMENT without a call means a wrong argument: nothing was sent. Any other status is an error of this
// program.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace mooring::cli {

struct Streams {
  std::ostream& out;  // answers
  std::ostream& err;  // everything else
};

// Scripts rely on these: docs/cli.md, "For scripts".
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    // a call failed, or the answer is no
inline constexpr int kExitUsage = 2;     // the command line is wrong: nothing was sent or done
inline constexpr int kExitFindings = 3;  // `mooring doctor` has found a problem

// Prints the error to stderr and, with `json`, to stdout. Returns the exit status. A wrong command line is printed to
// stderr only: it concerns the author of a script, not the script.
int Report(const absl::Status& failure, bool json, const CLI::App& app, const Streams& streams);

// The hint after a wrong command line: "Try 'mooring csi stage --help'.\n".
std::string UsageHint(const CLI::App& app);

// Marks `status` as the answer to the call `rpc` ("NodePublishVolume").
absl::Status OfCall(absl::Status status, std::string_view rpc);

// The name of the call; empty if the status is not the answer to a call.
std::string CallOf(const absl::Status& status);

// Marks `status` as made by this program: the server was not there, or did not answer in time. Every other error of a
// call is from the server.
absl::Status Unanswered(absl::Status status);
bool IsUnanswered(const absl::Status& status);

int ExitStatus(const absl::Status& status);

// The error on one line: "NodePublishVolume: FAILED_PRECONDITION (9): message", fit for a terminal, and
// {"rpc":"NodePublishVolume","code":9,"code_name":"FAILED_PRECONDITION","message":"message"}.
std::string ToLine(const absl::Status& status);
std::string ToJson(const absl::Status& status);

}  // namespace mooring::cli
