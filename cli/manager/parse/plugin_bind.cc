#include "cli/manager/parse/plugin_bind.h"

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "cli/manager/parse/value_text.h"
#include "mounter/propagation.h"

namespace mooring::cli::manager_area {
namespace {

// Keeps empty parts: "/a:" has two.
std::vector<std::string> Parts(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream rest(text + separator);
  for (std::string part; std::getline(rest, part, separator);) parts.push_back(part);
  return parts;
}

enum class Kind { kAccess, kPropagation };

absl::StatusOr<Kind> SetOption(const std::string& option, v1::PluginBind& bind) {
  if (option == "ro" || option == "rw") {
    bind.set_read_only(option == "ro");
    return Kind::kAccess;
  }
  if (option.empty()) return InvalidArgument("an option is empty");
  const absl::StatusOr<v1::Propagation> propagation = ParsePropagation(option);
  if (!propagation.ok()) {
    return InvalidArgument(fmt::format("{} is none of ro, rw, {}", Quote(option), kPropagationWords));
  }
  bind.set_propagation(*propagation);
  return Kind::kPropagation;
}

// At most one option of each kind.
absl::Status SetOptions(const std::string& options, v1::PluginBind& bind) {
  std::set<Kind> given;
  for (const std::string& option : Parts(options, ',')) {
    MOORING_ASSIGN_OR_RETURN(const Kind kind, SetOption(option, bind));
    if (given.insert(kind).second) continue;
    return InvalidArgument(fmt::format("{} is one {} too many: give one", Quote(option),
                                       kind == Kind::kAccess ? "of ro and rw" : "propagation"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::PluginBind> ParseBind(const std::string& text) {
  constexpr std::size_t kPaths = 2;
  const std::vector<std::string> parts = Parts(text, ':');
  const std::string what = fmt::format("--bind {}", Quote(text));
  if (parts.size() < kPaths || parts.size() > kPaths + 1 || !parts[0].starts_with('/') || !parts[1].starts_with('/')) {
    return InvalidArgument(what + ": write HOST:CONTAINER or HOST:CONTAINER:ro, with two absolute paths without ':'");
  }
  v1::PluginBind bind;
  bind.set_source(parts[0]);
  bind.set_target(parts[1]);
  if (parts.size() == kPaths) return bind;
  if (const absl::Status set = SetOptions(parts[kPaths], bind); !set.ok()) return Annotate(set, what);
  return bind;
}

std::string ToString(const v1::PluginBind& bind) {
  std::string text = fmt::format("{}:{}", bind.source(), bind.target());
  std::string options = bind.read_only() ? "ro" : "";
  if (bind.propagation() != v1::PROPAGATION_PRIVATE) {
    options += (options.empty() ? "" : ",") + ToString(bind.propagation());
  }
  return options.empty() ? text : text + ":" + options;
}

}  // namespace mooring::cli::manager_area
