#include "manager/launch/launcher.h"

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace mooring::manager {
namespace {

// Works in a single pass: placeholders in a value are not filled in.
std::string Fill(std::string_view text, const PlaceholderValues& values) {
  const std::string endpoint = EndpointOf(values.socket);
  const std::array<std::pair<std::string_view, std::string_view>, 6> table = {{
      {"{{endpoint}}", "{endpoint}"},
      {"{{socket}}", "{socket}"},
      {"{{node}}", "{node}"},
      {"{endpoint}", endpoint},
      {"{socket}", values.socket},
      {"{node}", values.node},
  }};
  std::string filled;
  while (!text.empty()) {
    std::string_view found = text.substr(0, 1), value = found;
    for (const auto& [name, with] : table) {
      if (!text.starts_with(name)) continue;
      found = name;
      value = with;
      break;
    }
    filled += value;
    text.remove_prefix(found.size());
  }
  return filled;
}

}  // namespace

std::string EndpointOf(const std::string& socket) { return "unix://" + socket; }

PluginRecord::Run FillPlaceholders(PluginRecord::Run run, const PlaceholderValues& values) {
  for (std::string& word : run.command) word = Fill(word, values);
  for (auto& [name, value] : run.environment) value = Fill(value, values);
  return run;
}

}  // namespace mooring::manager
