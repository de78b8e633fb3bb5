#include <fmt/format.h>

#include "cli/completion/scripts.h"
#include "cli/flags/key_values.h"

namespace mooring::cli::completion_area {
namespace {

constexpr char kHead[] = R"sh(# fish completion of mooring; made by: mooring completion fish
function __mooring_at
    set -l command mooring
    for word in (commandline -opc)[2..]
        contains -- "$command $word" $__mooring_commands; and set command "$command $word"
    end
    test "$command" = "$argv[1]"
end
complete -c mooring -f
)sh";
constexpr char kVolumes[] = "'(mooring volume list --quiet 2>/dev/null)'";
constexpr char kPlugins[] = "'(mooring plugin status --quiet 2>/dev/null)'";

// In single quotes, fish gives only \ and ' a special meaning.
std::string FishQuote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string At(const Command& command) {
  return "complete -c mooring -n " + FishQuote("__mooring_at " + FishQuote(command.path));
}

std::string ValueOf(const Flag& flag) {
  switch (flag.values) {
    case Values::kNone:
      return "";
    case Values::kAny:
      return " -x";
    case Values::kFiles:
      return " -r -F";
    case Values::kWords:
      return " -x -a " + FishQuote(Join(flag.words, " "));
    case Values::kVolumes:
      return std::string(" -x -a ") + kVolumes;
    case Values::kPlugins:
      return std::string(" -x -a ") + kPlugins;
  }
  return "";
}

std::string FlagLine(const Command& command, const Flag& flag) {
  const bool is_long = flag.name.starts_with("--");
  return fmt::format("{} {} {}{} -d {}\n", At(command), is_long ? "-l" : "-s", flag.name.substr(is_long ? 2 : 1),
                     ValueOf(flag), FishQuote(flag.help));
}

std::string OperandsLine(const Command& command) {
  switch (command.operands) {
    case Values::kVolumes:
      return At(command) + " -a " + kVolumes + "\n";
    case Values::kPlugins:
      return At(command) + " -a " + kPlugins + "\n";
    case Values::kFiles:
      return At(command) + " -F\n";
    case Values::kNone:
    case Values::kAny:
    case Values::kWords:
      return "";
  }
  return "";
}

}  // namespace

std::string FishScript(const std::vector<Command>& commands) {
  std::string script = kHead;
  script += "set -g __mooring_commands";
  for (std::size_t i = 1; i < commands.size(); ++i) script += " " + FishQuote(commands[i].path);
  script += "\n";
  for (const Command& command : commands) {
    for (const std::size_t i : command.below) {
      script += fmt::format("{} -a {} -d {}\n", At(command), commands[i].name, FishQuote(commands[i].help));
    }
    for (const Flag& flag : command.flags) script += FlagLine(command, flag);
    script += OperandsLine(command);
  }
  return script;
}

}  // namespace mooring::cli::completion_area
