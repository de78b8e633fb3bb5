// The commands of the program with their flags and operands, for the completion scripts.
#ifndef MOORING_CLI_COMPLETION_COMMAND_TREE_H_
#define MOORING_CLI_COMPLETION_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mooring::cli::completion_area {

// The possible values of a flag or an operand.
enum class Values {
  kNone,  // a switch
  kAny,
  kFiles,
  kWords,    // Flag::words
  kVolumes,  // IDs of the volumes of the manager
  kPlugins,  // names of the plugins of the manager
};

struct Flag {
  std::string name;  // "--access", "-n"
  std::string help;
  Values values = Values::kAny;
  std::vector<std::string> words;
};

struct Command {
  std::string path;  // "mooring volume create"
  std::string name;
  std::string help;
  std::vector<Flag> flags;
  Values operands = Values::kNone;
  std::vector<std::size_t> below;  // indexes of its subcommands
};

// All commands, beginning with `root`. Each command comes before its subcommands.
std::vector<Command> CommandsOf(const CLI::App& root);

}  // namespace mooring::cli::completion_area

#endif  // MOORING_CLI_COMPLETION_COMMAND_TREE_H_
