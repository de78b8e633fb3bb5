// Options and arguments of a command, as this program wants them read: an empty value, nearly always a script's
// variable that is not set, is refused, and an option takes one value at a time.
#ifndef MOORING_CLI_FLAGS_OPTIONS_H_
#define MOORING_CLI_FLAGS_OPTIONS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mooring::cli {

// `name` as CLI11 has it: "--below", or "DST" for an argument. `slot` outlives the parse.
CLI::Option* AddText(CLI::App& app, const char* name, const char* value, const char* help, std::string& slot);
CLI::Option* AddTexts(CLI::App& app, const char* name, const char* value, const char* help,
                      std::vector<std::string>& slot);
CLI::Option* AddPid(CLI::App& app, const char* name, const char* help, pid_t& slot);

}  // namespace mooring::cli

#endif  // MOORING_CLI_FLAGS_OPTIONS_H_
