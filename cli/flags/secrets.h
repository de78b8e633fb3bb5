// Secrets from the command line for a request. Only CopyTo gives them out: the type cannot be printed.
#pragma once

#include <google/protobuf/map.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "cli/flags/flag_values.h"

namespace mooring::cli {

class Secrets {
 public:
  // Adds "key=value". Errors name only the key.
  absl::Status Add(std::string_view text);

  // Adds the pairs of a file: a JSON object of strings, or lines of key=value. Empty lines and lines that begin with
  // '#' are skipped. A value is everything after the '=', with its spaces. Every error is INVALID_ARGUMENT and names
  // the file and the line, but not the content of the line.
  absl::Status AddFile(const std::string& path);

  void CopyTo(google::protobuf::Map<std::string, std::string>& map) const;

  // Replaces every secret of 4 bytes or more by "***", also in its quoted forms: a driver may repeat a secret in its
  // error message.
  std::string Redact(std::string text) const;
  absl::Status Redact(const absl::Status& status) const;  // the same for the message of an error

 private:
  absl::Status AddLines(std::string_view content);
  absl::Status AddJson(const std::string& content);

  KeyValues pairs_;
};

}  // namespace mooring::cli
