// The commands of the program and what each takes, for whoever completes them.
#ifndef MOORING_CLI_COMPLETION_COMMAND_TREE_H_
#define MOORING_CLI_COMPLETION_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mooring::cli::completion_area {

// What a value may be.
enum class Values {
  kNone,  // a switch
  kAny,
  kFiles,
  kWords,    // Flag::words
  kVolumes,  // ids, as the manager has them
  kPlugins,  // names, likewise
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
  Values operands = Values::kNone;  // what stands behind it without a flag
  std::vector<std::size_t> below;   // places of its subcommands
};

// The first is `root`; each stands before those below it.
std::vector<Command> CommandsOf(const CLI::App& root);

}  // namespace mooring::cli::completion_area

#endif  // MOORING_CLI_COMPLETION_COMMAND_TREE_H_
