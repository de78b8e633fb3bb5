// The values of protobuf enums as words of the command line: SINGLE_NODE_WRITER is "single-node-writer".
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mooring::cli {

std::string ToDashed(std::string_view constant);

// The word of a value. For a number that this program does not know, "mode-17" if `what` is "mode".
std::string EnumWord(const google::protobuf::EnumDescriptor& type, int number, std::string_view what);

// Parses the word or the name of the constant. The value 0, "unspecified", is not accepted. INVALID_ARGUMENT lists the
// choices: "the access mode 'x' is none of …".
absl::StatusOr<int> ParseEnumWord(const google::protobuf::EnumDescriptor& type, std::string_view word,
                                  std::string_view what);

}  // namespace mooring::cli
