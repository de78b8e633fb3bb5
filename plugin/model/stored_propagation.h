// How the databases write a propagation down: its word in a column, empty for none. What is no word, which only another
// program can have written, is none.
#ifndef MOORING_PLUGIN_MODEL_STORED_PROPAGATION_H_
#define MOORING_PLUGIN_MODEL_STORED_PROPAGATION_H_

#include <optional>
#include <string>

#include "mounter/mounter.h"

namespace mooring {

std::string PropagationText(std::optional<Propagation> propagation);
std::optional<Propagation> PropagationIn(const std::string& text);

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_STORED_PROPAGATION_H_
