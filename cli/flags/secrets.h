// Secrets on their way from the user into a request. The type has no way out but CopyTo: it cannot be printed.
#ifndef MOORING_CLI_FLAGS_SECRETS_H_
#define MOORING_CLI_FLAGS_SECRETS_H_

#include <google/protobuf/map.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "cli/flags/key_values.h"

namespace mooring::cli {

class Secrets {
 public:
  // Adds "key=value". Errors name the key at most.
  absl::Status Add(std::string_view text);

  // Adds the pairs of a file: a JSON object of strings, or lines of key=value, where empty lines and lines that begin
  // with '#' are skipped and a value is everything behind the '=', spaces too. Everything wrong is INVALID_ARGUMENT and
  // names the file and the line, never what is written there.
  absl::Status AddFile(const std::string& path);

  void CopyTo(google::protobuf::Map<std::string, std::string>& map) const;

  // `text` with every secret of 4 bytes or more blanked out, quoted or as it is: a driver may repeat one in its error
  // message.
  std::string Redact(std::string text) const;

 private:
  absl::Status AddLines(std::string_view content);
  absl::Status AddJson(const std::string& content);

  KeyValues pairs_;
};

}  // namespace mooring::cli

#endif  // MOORING_CLI_FLAGS_SECRETS_H_
