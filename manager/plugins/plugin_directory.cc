#include "manager/plugins/plugin_directory.h"

#include <fmt/format.h>

#include "base/text/quote.h"

namespace mooring::manager {

std::string LastErrorOf(const InstanceInfo& instance, const Fingerprint& found) {
  const char* const otherwise = found.healthy ? "is healthy" : "has not answered yet";
  return fmt::format("instance {}: {}", Quote(instance.instance_id), found.problem.empty() ? otherwise : found.problem);
}

}  // namespace mooring::manager
