// What went wrong, and how it is told.
//
// Three kinds of absl::Status meet here: a call that the driver refused (it knows the call's name), an argument that
// cannot be right (INVALID_ARGUMENT without a call: nothing was sent), and anything else on this side.
#ifndef MOORING_CLI_OUTPUT_FAILURE_H_
#define MOORING_CLI_OUTPUT_FAILURE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mooring::cli {

// `status`, marked as the answer to the call `rpc` ("NodePublishVolume").
absl::Status OfCall(absl::Status status, std::string_view rpc);

// The call it answers, empty where it is none.
std::string CallOf(const absl::Status& status);

// `status`, marked: nobody was there, or said anything in time. Every other error of a call is what the driver said.
absl::Status Unanswered(absl::Status status);
bool IsUnanswered(const absl::Status& status);

int ExitStatus(const absl::Status& status);

// One line each. "NodePublishVolume: FAILED_PRECONDITION (9): message", fit for a terminal, and
// {"rpc":"NodePublishVolume","code":9,"code_name":"FAILED_PRECONDITION","message":"message"}.
std::string ToLine(const absl::Status& status);
std::string ToJson(const absl::Status& status);

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_FAILURE_H_
