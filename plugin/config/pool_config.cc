#include "plugin/config/pool_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/file/path.h"
#include "base/server_start.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/whole_number.h"
#include "plugin/backends/registry.h"

namespace mooring {
namespace {

constexpr std::size_t kLongestName = 63;
constexpr double kMostOvercommit = 1000;

constexpr std::string_view kOptions = "options=";

using Keys = std::map<std::string, std::string>;

absl::Status WrongPool(const std::string& text, const std::string& rule) { return WrongFlag("--pool", text, rule); }

absl::Status CheckBlanks(const std::string& text, const std::string& word) {
  const std::size_t equals = word.find('=');
  for (const std::string& part : {word.substr(0, equals), word.substr(equals + 1)}) {
    const std::string problem = NoOuterBlanks(part);
    if (!problem.empty()) return WrongPool(text, problem);
  }
  return absl::OkStatus();
}

absl::StatusOr<Keys> SplitKeys(const std::string& text) {
  Keys keys;
  for (std::size_t at = 0; at <= text.size();) {
    // The options of a mount have commas and signs of equality of their own, so they are the last key.
    const bool has_options = text.compare(at, kOptions.size(), kOptions) == 0;
    const std::size_t end = has_options ? text.size() : std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) return WrongPool(text, "use key=value, several with commas");
    MOORING_RETURN_IF_ERROR(CheckBlanks(text, word));
    if (!keys.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      return WrongPool(text, fmt::format("{} is given twice", Quote(word.substr(0, equals))));
    }
    at = end + 1;
  }
  return keys;
}

// The name becomes the name of a directory in the state directory.
bool IsName(std::string_view text) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= kLongestName && plain(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

absl::StatusOr<BackendKind> ParseKind(const std::string& text, const std::string& word) {
  std::vector<std::string_view> names;
  for (const BackendKind kind : kBackendKinds) {
    if (word == ToString(kind)) return kind;
    names.push_back(ToString(kind));
  }
  return WrongPool(text, fmt::format("backend is missing or unknown: use one of {}", fmt::join(names, ", ")));
}

absl::Status ReadKey(const std::string& text, const std::string& key, const std::string& value, PoolConfig& pool) {
  if (key == "path") {
    const absl::StatusOr<std::string> path = NormalisePath("path", value);
    if (!path.ok()) return WrongPool(text, Message(path.status()));
    pool.path = *path;
  } else if (key == "size") {
    const absl::StatusOr<std::int64_t> bytes = ParseSize(value);
    if (!bytes.ok()) return WrongPool(text, "size " + Message(bytes.status()));
    if (*bytes == 0) return WrongPool(text, "size must be more than 0; without it, half of the memory is the limit");
    pool.bytes = static_cast<std::uint64_t>(*bytes);
  } else if (key == "shared") {
    if (value != "true" && value != "false") return WrongPool(text, "shared must be true or false");
    pool.shared = value == "true";
  } else if (key == "overcommit") {
    const double ratio = ParseWhole<double>(value).value_or(0);
    if (!(ratio > 0) || ratio > kMostOvercommit) {
      return WrongPool(text, fmt::format("overcommit must be a number above 0, at most {}", kMostOvercommit));
    }
    pool.overcommit = ratio;
  } else {
    pool.own_keys[key] = value;
  }
  return absl::OkStatus();
}

absl::StatusOr<PoolConfig> ParsePool(const std::string& text) {
  MOORING_ASSIGN_OR_RETURN(Keys keys, SplitKeys(text));
  PoolConfig pool;
  if (!keys.contains("name")) return WrongPool(text, "name is missing: write name=NAME,backend=…");
  pool.name = keys["name"];
  if (!IsName(pool.name)) {
    return WrongPool(text,
                     fmt::format("name must have at most {} letters, digits, '-', '_' and '.', a letter or digit first",
                                 kLongestName));
  }
  MOORING_ASSIGN_OR_RETURN(pool.kind, ParseKind(text, keys["backend"]));
  keys.erase("name");
  keys.erase("backend");
  const std::vector<std::string_view>& known = TypeOf(pool.kind).pool_keys;
  for (const auto& [key, value] : keys) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return WrongPool(text, fmt::format("backend {} has no {}: it takes {}", ToString(pool.kind), Quote(key),
                                         fmt::join(known, ", ")));
    }
    MOORING_RETURN_IF_ERROR(ReadKey(text, key, value, pool));
  }
  const absl::Status complete = TypeOf(pool.kind).complete(pool);
  if (!complete.ok()) return WrongPool(text, Message(complete));
  return pool;
}

}  // namespace

absl::StatusOr<std::vector<PoolConfig>> ParsePools(const std::vector<std::string>& texts) {
  std::vector<PoolConfig> pools = {{.name = std::string(kDefaultPool)}};
  bool has_default = false;
  for (const std::string& text : texts) {
    MOORING_ASSIGN_OR_RETURN(PoolConfig pool, ParsePool(text));
    const auto same =
        std::find_if(pools.begin(), pools.end(), [&](const auto& other) { return other.name == pool.name; });
    if (same == pools.end()) {
      pools.push_back(std::move(pool));
      continue;
    }
    if (has_default || pool.name != kDefaultPool) return WrongPool(text, "there is a pool of this name already");
    has_default = true;
    *same = std::move(pool);
  }
  return pools;
}

}  // namespace mooring
