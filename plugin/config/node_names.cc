#include "plugin/config/node_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/hash.h"
#include "base/host.h"
#include "base/server_start.h"
#include "base/status.h"

namespace mooring {
namespace {

constexpr std::size_t kLongestPart = 63;     // CSI: of a topology key's prefix and name, and of its value
constexpr std::size_t kLongestNodeId = 256;  // CSI; a Kubernetes node's name has up to 253 bytes, a host's name 64
constexpr std::string_view kTopologyPrefix = "topology.";
constexpr std::size_t kLongestDriverName = kLongestPart - kTopologyPrefix.size();
constexpr std::string_view kNodeKey = "node";
constexpr std::string_view kPartRule = "at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last";

// Unlike isalpha(3), these do not depend on the locale.
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsAlphanumeric(char c) { return IsLetter(c) || (c >= '0' && c <= '9'); }

bool IsWord(std::string_view text, std::string_view also_inside) {
  if (text.empty() || !IsAlphanumeric(text.front()) || !IsAlphanumeric(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return IsAlphanumeric(c) || also_inside.find(c) != std::string_view::npos; });
}

bool IsPart(std::string_view text) { return text.size() <= kLongestPart && IsWord(text, "-_."); }

bool IsDomainName(std::string_view text) {
  while (true) {
    const std::size_t dot = text.find('.');
    if (!IsWord(text.substr(0, dot), "-")) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

std::string TopologyPrefix(const std::string& driver_name) { return std::string(kTopologyPrefix) + Lower(driver_name); }

// "zone" or "topology.<driver>/zone" -> "zone".
absl::StatusOr<std::string> TopologyName(const std::string& segment, const std::string& key,
                                         const std::string& prefix) {
  const std::size_t slash = key.find('/');
  if (slash != std::string::npos && key.substr(0, slash) != prefix) {
    return WrongFlag("--topology", segment,
                     fmt::format("the prefix of every key is '{}/' here; leave yours out", prefix));
  }
  std::string name = slash == std::string::npos ? key : key.substr(slash + 1);
  if (!IsPart(name)) return WrongFlag("--topology", segment, fmt::format("the key must have {}", kPartRule));
  if (Lower(name) == kNodeKey) {
    return WrongFlag("--topology", segment, fmt::format("'{}' stands for --node-id: use another key", kNodeKey));
  }
  return name;
}

// CSI: keys that differ in case only are the same key.
bool HasKey(const std::map<std::string, std::string>& topology, const std::string& key) {
  return std::any_of(topology.begin(), topology.end(),
                     [&](const auto& segment) { return Lower(segment.first) == Lower(key); });
}

}  // namespace

absl::StatusOr<std::string> CheckDriverName(const std::string& name) {
  if (name.size() <= kLongestDriverName && IsDomainName(name) && IsLetter(name.front()) && IsLetter(name.back())) {
    return name;
  }
  return WrongFlag("--driver-name", name,
                   fmt::format("it must have the form of a domain name (letters, digits, '-', '.'), a letter first and "
                               "last, and at most {} bytes",
                               kLongestDriverName));
}

absl::StatusOr<std::string> CheckNodeId(std::string id) {
  if (id.empty()) id = HostName();
  if (id.size() <= kLongestNodeId && IsWord(id, "-_.")) return id;
  return WrongFlag("--node-id", id,
                   fmt::format("it must have at most {} letters, digits, '-', '_' and '.', a letter or digit first and "
                               "last (the default is the host's name; give another)",
                               kLongestNodeId));
}

std::string NodeTopologyValue(const std::string& node_id) {
  if (node_id.size() <= kLongestPart) return node_id;
  const std::string hash = fmt::format("-{:016x}", HashOf(node_id));
  return node_id.substr(0, kLongestPart - hash.size()) + hash;
}

std::string TopologyKey(const std::string& driver_name, const std::string& name) {
  return fmt::format("{}/{}", TopologyPrefix(driver_name), name);
}

std::string NodeTopologyKey(const std::string& driver_name) { return TopologyKey(driver_name, std::string(kNodeKey)); }

absl::StatusOr<std::map<std::string, std::string>> ParseTopology(const std::vector<std::string>& segments,
                                                                 const std::string& driver_name) {
  const std::string prefix = TopologyPrefix(driver_name);
  std::map<std::string, std::string> topology;
  for (const std::string& segment : segments) {
    const std::size_t equals = segment.find('=');
    if (equals == std::string::npos) return WrongFlag("--topology", segment, "use key=value");
    MOORING_ASSIGN_OR_RETURN(const std::string name, TopologyName(segment, segment.substr(0, equals), prefix));
    const std::string key = TopologyKey(driver_name, name);
    const std::string value = segment.substr(equals + 1);
    if (!IsPart(value)) return WrongFlag("--topology", segment, fmt::format("the value must have {}", kPartRule));
    if (HasKey(topology, key)) return WrongFlag("--topology", segment, "the key is given twice");
    topology.emplace(key, value);
  }
  return topology;
}

}  // namespace mooring
