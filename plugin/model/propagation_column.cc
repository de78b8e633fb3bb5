#include "plugin/model/propagation_column.h"

#include "mounter/propagation.h"

namespace mooring {

std::string ToColumn(std::optional<Propagation> propagation) {
  return propagation ? std::string(ToString(*propagation)) : "";
}

std::optional<Propagation> PropagationFromColumn(const std::string& word) {
  const absl::StatusOr<Propagation> parsed = ParsePropagation(word);
  return parsed.ok() ? std::optional<Propagation>(*parsed) : std::nullopt;
}

}  // namespace mooring
