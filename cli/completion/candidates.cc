#include "cli/completion/candidates.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "cli/flags/flag_values.h"
#include "manager.pb.h"

namespace mooring::cli::completion_area {
namespace {

constexpr char kFiles[] = ":files\n";

// The names that `mooring OBJECT COMMAND --quiet` prints, one on each line. None if it fails.
std::string NamesFrom(RunProgram run, const char* object, const char* command) {
  const char* const argv[] = {"mooring", object, command, "--quiet"};
  std::ostringstream names;
  std::ostringstream errors;
  run(std::size(argv), argv, names, errors);
  return names.str();
}

std::string VolumeIds(RunProgram run) { return NamesFrom(run, "volume", "list"); }
std::string PluginNames(RunProgram run) { return NamesFrom(run, "plugin", "status"); }

std::string HostNames(RunProgram run) { return NamesFrom(run, "host", "list"); }

std::string AccessModes() {
  std::string words;
  const google::protobuf::EnumDescriptor& modes = *manager::v1::AccessMode_descriptor();
  for (int i = 1; i < modes.value_count(); ++i) words += ToDashed(modes.value(i)->name()) + "\n";
  return words;
}

bool NamesFile(std::string_view type) {
  constexpr std::array<std::string_view, 5> kTypes = {"FILE", "PATH", "SOCKET", "DIR", "ENDPOINT"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

std::string ValuesOf(const CLI::Option& option, std::string_view name, RunProgram run) {
  if (name == "--access") return AccessModes();
  if (name == "--mode") return "read\nwrite\n";
  if (name == "--propagation") return "private\nrslave\nrshared\n";
  if (name == "--plugin") return PluginNames(run);
  if (option.get_type_name() == "HOST") return HostNames(run);
  return NamesFile(option.get_type_name()) ? kFiles : "";
}

// The values of the first operand. Commands for the manager take IDs of volumes and names of plugins, others take
// paths.
std::string OperandsOf(const CLI::App& command, RunProgram run) {
  const std::vector<const CLI::Option*> options = command.get_options();
  const auto operand =
      std::find_if(options.begin(), options.end(), [](const CLI::Option* option) { return option->get_positional(); });
  if (operand == options.end()) return "";
  const bool asks_manager = command.get_option_no_throw("--manager") != nullptr;
  const std::string name = (*operand)->get_name();
  if (asks_manager && name == "ID") return VolumeIds(run);
  if (asks_manager && name == "NAME" && command.get_parent()->get_name() == "plugin") return PluginNames(run);
  if (asks_manager && name == "HOST") return HostNames(run);
  return kFiles;
}

std::string FlagsOf(const CLI::App& command) {
  std::string lines;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) lines += "--" + name + "\t" + option->get_description() + "\n";
    for (const std::string& name : option->get_snames()) lines += "-" + name + "\t" + option->get_description() + "\n";
  }
  return lines;
}

// The deepest command that the words name.
const CLI::App& CommandIn(const std::vector<std::string>& words, const CLI::App& root) {
  const CLI::App* command = &root;
  for (const std::string& word : words) {
    const auto below = command->get_subcommands([&word](const CLI::App* app) { return app->get_name() == word; });
    if (!below.empty()) command = below.front();
  }
  return *command;
}

// The values of the flag with this name. Absent if the command has no such flag, or it takes no value.
std::optional<std::string> ValuesAfter(const CLI::App& command, const std::string& name, RunProgram run) {
  const CLI::Option* const flag = name.starts_with("-") ? command.get_option_no_throw(name) : nullptr;
  if (flag == nullptr || flag->get_items_expected_max() == 0) return std::nullopt;
  return ValuesOf(*flag, name, run);
}

// The candidates for "--plugin=no", where the flag and its value are one word.
std::string ValuesWithFlag(const CLI::App& command, const std::string& name, RunProgram run) {
  std::istringstream values(ValuesAfter(command, name, run).value_or(""));
  std::string lines;
  for (std::string value; std::getline(values, value);) {
    if (!value.starts_with(':')) lines += name + "=" + value + "\n";
  }
  return lines;
}

}  // namespace

std::string Candidates(const CLI::App& root, std::vector<std::string> words, RunProgram run) {
  std::string current;
  if (!words.empty()) current = std::move(words.back());
  if (!words.empty()) words.pop_back();
  const CLI::App& command = CommandIn(words, root);
  const std::size_t equals = current.find('=');
  if (current.starts_with("--") && equals != std::string::npos) {
    return ValuesWithFlag(command, current.substr(0, equals), run);
  }
  if (const auto values = words.empty() ? std::nullopt : ValuesAfter(command, words.back(), run)) return *values;
  std::string lines;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; })) {
    lines += below->get_name() + "\t" + below->get_description() + "\n";
  }
  lines += FlagsOf(command);
  return current.starts_with("-") ? lines : lines + OperandsOf(command, run);
}

}  // namespace mooring::cli::completion_area
