// Prints answers: text for people, or one line of JSON for scripts.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text/quote.h"

namespace mooring::cli {

// JSON for answers that are not protobuf messages, on one line.
class JsonObject {
 public:
  JsonObject& Add(std::string_view name, std::string_view text) { return AddRaw(name, JsonQuote(text)); }
  JsonObject& AddNumber(std::string_view name, std::uint64_t number) { return AddRaw(name, std::to_string(number)); }
  JsonObject& AddBool(std::string_view name, bool value) { return AddRaw(name, value ? "true" : "false"); }
  JsonObject& AddRaw(std::string_view name, std::string_view json) {
    if (!members_.empty()) members_ += ',';
    members_.append(JsonQuote(name)).append(":").append(json);
    return *this;
  }
  std::string ToString() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

inline std::string JsonArray(const std::vector<std::string>& elements) {
  std::string array;
  for (const std::string& element : elements) array.append(array.empty() ? "" : ",").append(element);
  return "[" + array + "]";
}

inline std::string JsonStrings(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(JsonQuote(text));
  return JsonArray(quoted);
}

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
