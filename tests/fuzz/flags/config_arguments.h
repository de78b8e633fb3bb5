// A configuration as the arguments that give it, so that it can be parsed again.
#pragma once

#include <string>
#include <vector>

#include "manager/config.h"
#include "plugin/config/config.h"

namespace mooring::fuzz {

// Each flag with its value. Two configurations are equal if their arguments are.
std::vector<std::string> ArgumentsOf(const Config& config);
std::vector<std::string> ArgumentsOf(const manager::Config& config);

}  // namespace mooring::fuzz
