// Errors of commands, and how they are printed.
//
// There are three kinds. If the server refused a call, the status carries the name of the call. INVALID_ARGUMENT
// without a call means a wrong argument: nothing was sent. Any other status is an error of this program.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mooring::cli {

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
