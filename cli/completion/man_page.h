// The commands and flags of the program as mdoc(7), for the man page: `mooring __man_page`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace mooring::cli::completion_area {

// A section for each command below `root`, and one for the flags that many commands have.
std::string ManPageOf(const CLI::App& root);

}  // namespace mooring::cli::completion_area
