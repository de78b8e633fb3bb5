#include <fmt/format.h>

#include "cli/completion/scripts.h"
#include "cli/flags/key_values.h"
#include "cli/output/text.h"

namespace mooring::cli::completion_area {
namespace {

constexpr char kHead[] = R"sh(# bash completion of mooring; made by: mooring completion bash
_mooring() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path=mooring i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in
      )sh";
constexpr char kFlags[] = R"sh() path="$path ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path $previous" in
)sh";
constexpr char kWords[] = R"sh(  esac
  local words='' operands=''
  case $path in
)sh";
constexpr char kTail[] = R"sh(  esac
  if [[ $current == -* ]]; then operands=''; fi
  case $operands in
    volumes) words+=" $(mooring volume list --quiet 2>/dev/null)" ;;
    plugins) words+=" $(mooring plugin status --quiet 2>/dev/null)" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $operands == files ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _mooring mooring
)sh";

std::string Pattern(const std::vector<std::string>& alternatives) {
  std::vector<std::string> quoted;
  for (const std::string& text : alternatives) quoted.push_back(ShellQuote(text));
  return Join(quoted, "|");
}

// The case of the script that completes the value of a flag.
std::string ValueLine(const Command& command, const Flag& flag) {
  const std::string pattern = ShellQuote(command.path + " " + flag.name);
  const auto line = [&](const std::string& reply) {
    return fmt::format("    {}) COMPREPLY=({}); return ;;\n", pattern, reply);
  };
  switch (flag.values) {
    case Values::kNone:
      return "";
    case Values::kAny:
      return line("");
    case Values::kFiles:
      return line(R"sh($(compgen -f -- "$current"))sh");
    case Values::kWords:
      return line(fmt::format(R"sh($(compgen -W '{}' -- "$current"))sh", Join(flag.words, " ")));
    case Values::kVolumes:
      return line(R"sh($(compgen -W "$(mooring volume list --quiet 2>/dev/null)" -- "$current"))sh");
    case Values::kPlugins:
      return line(R"sh($(compgen -W "$(mooring plugin status --quiet 2>/dev/null)" -- "$current"))sh");
  }
  return "";
}

std::string OperandsWord(Values values) {
  switch (values) {
    case Values::kVolumes:
      return "volumes";
    case Values::kPlugins:
      return "plugins";
    case Values::kFiles:
      return "files";
    case Values::kNone:
    case Values::kAny:
    case Values::kWords:
      return "";
  }
  return "";
}

std::string WordsLine(const std::vector<Command>& commands, const Command& command) {
  std::vector<std::string> words;
  for (const std::size_t below : command.below) words.push_back(commands[below].name);
  for (const Flag& flag : command.flags) words.push_back(flag.name);
  return fmt::format("    {}) words='{}' operands='{}' ;;\n", ShellQuote(command.path), Join(words, " "),
                     OperandsWord(command.operands));
}

}  // namespace

std::string BashScript(const std::vector<Command>& commands) {
  std::vector<std::string> paths;
  for (std::size_t i = 1; i < commands.size(); ++i) paths.push_back(commands[i].path);
  std::string script = kHead + Pattern(paths) + kFlags;
  for (const Command& command : commands) {
    for (const Flag& flag : command.flags) script += ValueLine(command, flag);
  }
  script += kWords;
  for (const Command& command : commands) script += WordsLine(commands, command);
  return script + kTail;
}

}  // namespace mooring::cli::completion_area
