#include "cli/completion/man_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"

namespace mooring::cli::completion_area {
namespace {

constexpr int kMany = 10;  // a flag of more commands than this is explained once

using Visit = std::function<void(const CLI::App& app, const std::string& name)>;
using Flag = std::pair<std::string, std::string>;  // the words of an mdoc line, and the help

std::vector<const CLI::App*> Below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Calls `visit` for the program, and for all commands and groups of commands. `name` is as in "mooring volume create".
void ForEach(const CLI::App& app, const std::string& name, const Visit& visit) {
  visit(app, name);
  for (const CLI::App* each : Below(app)) ForEach(*each, name + " " + each->get_name(), visit);
}

// Text on lines of its own, without macros and escapes of mdoc(7).
std::string Literal(const std::string& text) {
  std::string page;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    if (line.starts_with('.') || line.starts_with('\'')) page += "\\&";
    for (const char c : line) page += c == '\\' ? "\\e" : std::string(1, c);
    page += '\n';
  }
  return page;
}

std::string Sentence(const std::string& text) { return Literal(text + "."); }

Flag Described(const CLI::Option& option) {
  std::string words = fmt::format("Fl -{}", option.get_lnames().front());
  for (const std::string& letter : option.get_snames()) words = fmt::format("Fl {} , {}", letter, words);
  if (option.get_items_expected_max() > 0) words += " Ar " + option.get_type_name();
  std::string help = option.get_description();
  if (option.get_required()) help += " (required)";
  if (!option.get_envname().empty()) help += fmt::format(" (variable {})", option.get_envname());
  return {std::move(words), std::move(help)};
}

std::vector<Flag> DescribedFlags(const CLI::App& app) {
  std::vector<Flag> flags;
  for (const CLI::Option* option : app.get_options()) {
    const bool is_flag = !option->get_positional() && !option->get_lnames().empty();
    if (is_flag && option != app.get_help_ptr() && option != app.get_version_ptr()) flags.push_back(Described(*option));
  }
  return flags;
}

std::string Explained(const std::vector<Flag>& flags) {
  if (flags.empty()) return "";
  std::string page = ".Bl -tag -width Ds\n";
  for (const auto& [words, help] : flags) page += fmt::format(".It {}\n{}", words, Sentence(help));
  return page + ".El\n";
}

std::string OperandWords(const CLI::App& command) {
  std::string operands;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    operands += fmt::format(" {} {}", option->get_required() ? "Ar" : "Op Ar", option->get_name());
  }
  return operands;
}

class ManPage {
 public:
  explicit ManPage(const CLI::App& root) {
    ForEach(root, root.get_name(), [this](const CLI::App& app, const std::string& name) {
      for (const Flag& flag : DescribedFlags(app)) users_[flag].push_back(name);
    });
    ForEach(root, root.get_name(), [this](const CLI::App& app, const std::string& name) { Add(app, name); });
    std::vector<Flag> common;
    for (const auto& [flag, users] : users_) {
      if (IsCommon(flag)) common.push_back(flag);
    }
    text_ += ".Ss Flags of many commands\n" + Explained(common);
  }
  const std::string& text() const { return text_; }

 private:
  bool IsCommon(const Flag& flag) const { return users_.at(flag).size() > kMany; }

  void Add(const CLI::App& app, const std::string& name) {
    std::vector<Flag> own;
    std::string common;
    for (const Flag& flag : DescribedFlags(app)) {
      if (!IsCommon(flag))
        own.push_back(flag);
      else
        common += (common.empty() ? ".Pp\nAlso\n." : " , ") + flag.first;
    }
    const bool is_group = app.get_require_subcommand_min() > 0;
    if (is_group && own.empty()) return;
    text_ += fmt::format(".Ss {}{}\n", name, OperandWords(app));
    text_ += is_group ? Sentence(fmt::format("Each command of {} takes these flags", name))
                      : Sentence(app.get_description());
    text_ += Explained(own);
    if (!common.empty()) text_ += common + " .\n";
    const std::string footer = app.get_footer();
    if (footers_.insert(footer).second && !footer.empty()) text_ += ".Bd -literal\n" + Literal(footer) + ".Ed\n";
  }

  std::map<Flag, std::vector<std::string>> users_;  // by name
  std::set<std::string> footers_;                   // one that many commands have is shown once
  std::string text_;
};

}  // namespace

std::string ManPageOf(const CLI::App& root) { return ManPage(root).text(); }

}  // namespace mooring::cli::completion_area
