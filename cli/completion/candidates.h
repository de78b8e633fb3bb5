// The words by which a command line can go on, for the completion scripts: `mooring __complete WORD...`.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mooring::cli::completion_area {

// Runs a command line of this program (run.h).
using RunProgram = int (*)(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

// The candidates for the last of `words`, which follow `mooring` and may be empty: one on each line. The help of a
// command or flag follows after a tab. The line ":files" means names of files. Candidates that do not begin with the
// word are among them: each shell compares in its own way. `run` lists the volumes and plugins of the manager.
std::string Candidates(const CLI::App& root, std::vector<std::string> words, RunProgram run);

}  // namespace mooring::cli::completion_area
