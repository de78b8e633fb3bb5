#include "manager/state/state.h"

#include <utility>

#include "base/status.h"

namespace mooring::manager {

absl::StatusOr<std::optional<KeyValue>> State::Get(const std::string& key) {
  MOORING_ASSIGN_OR_RETURN(Listing found, Read({key}, std::nullopt, Freshness::kNow));
  if (found.values.empty()) return std::nullopt;
  if (const std::string& problem = found.values.front().problem; !problem.empty()) return FailedPrecondition(problem);
  return std::move(found.values.front());
}

absl::Status State::Visit(const std::string& prefix, const Visitor& visit) {
  MOORING_ASSIGN_OR_RETURN(Listing listing, List(prefix));
  for (KeyValue& value : listing.values) MOORING_RETURN_IF_ERROR(visit(std::move(value)));
  return absl::OkStatus();
}

}  // namespace mooring::manager
