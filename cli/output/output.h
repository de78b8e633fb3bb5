// Prints answers: text for people, or one line of JSON for scripts.
#pragma once

#include <google/protobuf/message.h>

#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli {

// The JSON of protobuf on one line: names as in the .proto file, with fields of value zero, 64-bit numbers as strings.
absl::StatusOr<std::string> MessageJson(const google::protobuf::Message& message);

class Output {
 public:
  Output(std::ostream& out, bool json) : out_(out), json_(json) {}

  bool json() const { return json_; }

  // Writes out what is buffered. CANCELLED: the reader of the standard output is gone.
  absl::Status Flush();

  // Prints the message as JSON, or `text`: complete lines that are fit for a terminal.
  absl::Status Show(const google::protobuf::Message& message, std::string_view text);

  // The same with JSON that is already one line.
  absl::Status ShowLine(const std::string& json, std::string_view text);

  // The same with several messages as members of one object. A null message is left out.
  using Member = std::pair<std::string_view, const google::protobuf::Message*>;
  absl::Status Show(std::initializer_list<Member> members, std::string_view text);

 private:
  std::ostream& out_;
  bool json_;
};

}  // namespace mooring::cli
