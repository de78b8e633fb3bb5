#include "plugin/model/stored_propagation.h"

#include "mounter/propagation.h"

namespace mooring {

std::string PropagationText(std::optional<Propagation> propagation) {
  return propagation ? std::string(ToString(*propagation)) : "";
}

std::optional<Propagation> PropagationIn(const std::string& text) {
  const absl::StatusOr<Propagation> parsed = ParsePropagation(text);
  return parsed.ok() ? std::optional<Propagation>(*parsed) : std::nullopt;
}

}  // namespace mooring
