// JSON for answers that are not protobuf messages, on one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/quote.h"

namespace mooring::cli {

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

}  // namespace mooring::cli
