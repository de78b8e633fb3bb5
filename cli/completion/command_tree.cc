#include "cli/completion/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <map>

#include "cli/flags/enum_words.h"
#include "manager.pb.h"

namespace mooring::cli::completion_area {
namespace {

std::vector<std::string> AccessModes() {
  std::vector<std::string> words;
  const google::protobuf::EnumDescriptor& modes = *manager::v1::AccessMode_descriptor();
  for (int i = 1; i < modes.value_count(); ++i) words.push_back(ToDashed(modes.value(i)->name()));
  return words;
}

const std::map<std::string, std::vector<std::string>>& WordsOfFlags() {
  static const std::map<std::string, std::vector<std::string>> words{
      {"--access", AccessModes()},
      {"--mode", {"read", "write"}},
      {"--propagation", {"private", "rslave", "rshared"}},
  };
  return words;
}

bool NamesFile(const std::string& type) {
  constexpr const char* kTypes[] = {"FILE", "PATH", "SOCKET", "DIR", "ENDPOINT"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

Flag FlagOf(const CLI::Option& option, const std::string& name) {
  Flag flag{.name = name, .help = option.get_description(), .words = {}};
  const auto words = WordsOfFlags().find(name);
  if (option.get_items_expected_max() == 0) {
    flag.values = Values::kNone;
  } else if (words != WordsOfFlags().end()) {
    flag.values = Values::kWords;
    flag.words = words->second;
  } else if (name == "--plugin") {
    flag.values = Values::kPlugins;
  } else if (NamesFile(option.get_type_name())) {
    flag.values = Values::kFiles;
  }
  return flag;
}

// The kind of the first operand. Commands for the manager take IDs of volumes and names of plugins, others take paths.
Values OperandsOf(const CLI::App& app) {
  const bool asks_manager = app.get_option_no_throw("--manager") != nullptr;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    if (asks_manager && option->get_name() == "ID") return Values::kVolumes;
    if (asks_manager && option->get_name() == "NAME" && app.get_parent()->get_name() == "plugin") {
      return Values::kPlugins;
    }
    return Values::kFiles;
  }
  return Values::kNone;
}

void Walk(const CLI::App& app, const std::string& path, std::vector<Command>& commands) {
  const std::size_t here = commands.size();
  commands.push_back({.path = path,
                      .name = app.get_name(),
                      .help = app.get_description(),
                      .flags = {},
                      .operands = OperandsOf(app),
                      .below = {}});
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) commands[here].flags.push_back(FlagOf(*option, "--" + name));
    for (const std::string& name : option->get_snames()) commands[here].flags.push_back(FlagOf(*option, "-" + name));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands[here].below.push_back(commands.size());
    Walk(*below, path + " " + below->get_name(), commands);
  }
}

}  // namespace

std::vector<Command> CommandsOf(const CLI::App& root) {
  std::vector<Command> commands;
  Walk(root, root.get_name(), commands);
  return commands;
}

}  // namespace mooring::cli::completion_area
