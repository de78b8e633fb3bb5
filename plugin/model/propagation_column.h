// The word for a propagation in a database column. Empty: none.
#pragma once

#include <optional>
#include <string>

#include "mounter/propagation.h"

namespace mooring {

inline std::string ToColumn(std::optional<Propagation> propagation) {
  return propagation ? std::string(ToString(*propagation)) : "";
}

// An unknown word is read as none.
inline std::optional<Propagation> PropagationFromColumn(const std::string& word) {
  const absl::StatusOr<Propagation> parsed = ParsePropagation(word);
  return parsed.ok() ? std::optional<Propagation>(*parsed) : std::nullopt;
}

}  // namespace mooring
