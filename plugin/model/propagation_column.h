// The word for a propagation in a database column. Empty: none.
#ifndef MOORING_PLUGIN_MODEL_PROPAGATION_COLUMN_H_
#define MOORING_PLUGIN_MODEL_PROPAGATION_COLUMN_H_

#include <optional>
#include <string>

#include "mounter/mounter.h"

namespace mooring {

std::string ToColumn(std::optional<Propagation> propagation);
std::optional<Propagation> PropagationFromColumn(const std::string& word);  // an unknown word is read as none

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_PROPAGATION_COLUMN_H_
