// The hint after a wrong command line.
#ifndef MOORING_CLI_OUTPUT_USAGE_H_
#define MOORING_CLI_OUTPUT_USAGE_H_

#include <string>

namespace CLI {
class App;
}

namespace mooring::cli {

// "Try 'mooring csi stage --help'.\n"
std::string UsageHint(const CLI::App& app);

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_USAGE_H_
