// The values of flags: numbers, durations, "key=value" pairs, words of enums, and files. The error of a parser is
// INVALID_ARGUMENT and says which values are valid.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/map.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli {

using Bytes = std::int64_t;
using Duration = std::chrono::milliseconds;

// A place in a volume. Programs print it as bytes, so unlike a size (base/text/size.h) it needs no unit.
struct Offset {
  Bytes bytes = 0;
};

absl::StatusOr<Duration> ParseSeconds(const std::string& text);       // above 0, at most a day, fractions allowed
absl::StatusOr<std::int32_t> ParseCount(const std::string& text);     // above 0
absl::StatusOr<std::int64_t> ParseRevision(const std::string& text);  // above 0
absl::StatusOr<std::uint32_t> ParseIndex(const std::string& text);    // 0 or more

absl::StatusOr<Offset> ParseOffset(const std::string& text);  // "4096", "4KiB"

// Refuses an empty value, which is nearly always an unset variable of a script. An empty field of a request would mean
// something else, such as "every node"; for that, the user leaves out the flag. If `is_sent`, the text must be UTF-8,
// as protobuf requires.
absl::Status CheckText(const std::string& text, bool is_sent);

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

// The value of a protobuf enum as a word of the command line: SINGLE_NODE_WRITER is "single-node-writer".
std::string ToDashed(std::string_view constant);

// The word of a value. For a number that this program does not know, "mode-17" if `what` is "mode".
std::string EnumWord(const google::protobuf::EnumDescriptor& type, int number, std::string_view what);

// Parses the word or the name of the constant. The value 0, "unspecified", is not accepted. INVALID_ARGUMENT lists the
// choices: "the access mode 'x' is none of …".
absl::StatusOr<int> ParseEnumWord(const google::protobuf::EnumDescriptor& type, std::string_view word,
                                  std::string_view what);

// Reads the whole file; "-" is the standard input. INVALID_ARGUMENT: more than 1 MiB. Errors do not name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace mooring::cli
