// "key=value" arguments.
#pragma once

#include <google/protobuf/map.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mooring::cli {

using KeyValues = std::map<std::string, std::string>;
using StringMap = google::protobuf::Map<std::string, std::string>;  // the same in a message

// Adds "key=value", split at the first '='. INVALID_ARGUMENT: no '=', an empty key, a key that is already in `pairs`,
// or bytes that are not UTF-8. No error shows the value, because it may be a secret.
absl::Status AddKeyValue(std::string_view text, KeyValues& pairs);

// The same for "key=value,key=value".
absl::Status AddKeyValueList(std::string_view text, KeyValues& pairs);

std::string Join(const std::vector<std::string>& parts, std::string_view separator);
std::string ToString(const KeyValues& pairs);  // "a=b, c=d"
std::string ToString(const StringMap& map);    // the same, by key
void Fill(const KeyValues& pairs, StringMap& map);

// Adds a topology for each of the pairs.
template <typename Topologies>
void AddSegments(const std::vector<KeyValues>& all, Topologies& topologies) {
  for (const KeyValues& pairs : all) Fill(pairs, *topologies.Add()->mutable_segments());
}

}  // namespace mooring::cli
