#include <fmt/format.h>

#include "cli/completion/scripts.h"
#include "cli/flags/key_values.h"
#include "cli/output/text.h"

namespace mooring::cli::completion_area {
namespace {

constexpr char kHead[] = R"sh(#compdef mooring
# zsh completion of mooring; made by: mooring completion zsh
_mooring() {
  local command=mooring previous=$words[CURRENT-1] i
  local -a below flags
  for ((i = 2; i < CURRENT; i++)); do
    case "$command $words[i]" in
      ()sh";
constexpr char kFlags[] = R"sh() command="$command $words[i]" ;;
    esac
  done
  case "$command $previous" in
)sh";
constexpr char kWords[] = R"sh(  esac
  local operands=''
  case $command in
)sh";
constexpr char kTail[] = R"sh(  esac
  (( $#below )) && _describe -t commands command below
  [[ $words[CURRENT] == -* ]] && { _describe -t flags flag flags; return; }
  case $operands in
    volumes) compadd -- ${(f)"$(mooring volume list --quiet 2>/dev/null)"} ;;
    plugins) compadd -- ${(f)"$(mooring plugin status --quiet 2>/dev/null)"} ;;
    files) _files ;;
  esac
}
if [ "$funcstack[1]" = _mooring ]; then _mooring "$@"; else compdef _mooring mooring; fi
)sh";

std::string ActionOf(const Flag& flag) {
  switch (flag.values) {
    case Values::kNone:
      return "";
    case Values::kAny:
      return ":";
    case Values::kFiles:
      return "_files";
    case Values::kWords:
      return "compadd -- " + Join(flag.words, " ");
    case Values::kVolumes:
      return R"sh(compadd -- ${(f)"$(mooring volume list --quiet 2>/dev/null)"})sh";
    case Values::kPlugins:
      return R"sh(compadd -- ${(f)"$(mooring plugin status --quiet 2>/dev/null)"})sh";
  }
  return "";
}

std::string OperandsWord(Values values) {
  if (values == Values::kVolumes) return "volumes";
  if (values == Values::kPlugins) return "plugins";
  return values == Values::kFiles ? "files" : "";
}

// "name:help", the form that _describe expects.
std::string Described(const std::string& name, const std::string& help) { return ShellQuote(name + ":" + help); }

std::string CommandLines(const std::vector<Command>& commands, const Command& command) {
  std::vector<std::string> below;
  std::vector<std::string> flags;
  for (const std::size_t i : command.below) below.push_back(Described(commands[i].name, commands[i].help));
  for (const Flag& flag : command.flags) flags.push_back(Described(flag.name, flag.help));
  return fmt::format("    ({})\n      below=({})\n      flags=({})\n      operands='{}' ;;\n", ShellQuote(command.path),
                     Join(below, " "), Join(flags, " "), OperandsWord(command.operands));
}

}  // namespace

std::string ZshScript(const std::vector<Command>& commands) {
  std::vector<std::string> paths;
  for (std::size_t i = 1; i < commands.size(); ++i) paths.push_back(ShellQuote(commands[i].path));
  std::string script = kHead + Join(paths, "|") + kFlags;
  for (const Command& command : commands) {
    for (const Flag& flag : command.flags) {
      const std::string action = ActionOf(flag);
      if (action.empty()) continue;
      script += fmt::format("    ({}) {}; return ;;\n", ShellQuote(command.path + " " + flag.name), action);
    }
  }
  script += kWords;
  for (const Command& command : commands) script += CommandLines(commands, command);
  return script + kTail;
}

}  // namespace mooring::cli::completion_area
