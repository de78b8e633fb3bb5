// Command lines of all programs. Each line of an input is an argument; the first one is the program. A line
// "$NAME=VALUE" sets a variable instead. The invariants:
//
//   an error is one line that can be shown, and names a flag, a variable or an argument
//   no output contains the value of a flag for secrets
//   an accepted configuration, written as flags again, is the same configuration
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "cli/command/area.h"
#include "cli/completion/candidates.h"
#include "cli/mount_csi/helper_line.h"
#include "cli/run.h"
#include "tests/fuzz/flags/config_arguments.h"
#include "tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace mooring::fuzz {
namespace {

using Lines = std::vector<std::string>;

struct CommandLine {
  Lines words;
  std::vector<const char*> argv;

  explicit CommandLine(Lines all) : words(std::move(all)) {
    for (const std::string& word : words) argv.push_back(word.c_str());
  }
  int argc() const { return static_cast<int>(argv.size()); }
};

// Sets variables of the programs while it lives.
class Variables {
 public:
  void Set(const std::string& line) {
    const std::size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    if (equals == std::string::npos || !(name.starts_with("MOORING_") || name == "CSI_ENDPOINT")) return;
    if (name.find("FUZZ") != std::string::npos) return;
    ::setenv(name.c_str(), line.substr(equals + 1).c_str(), 1);
    set_.insert(name);
  }
  ~Variables() {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }

 private:
  std::set<std::string> set_;
};

void CheckCanBeShown(const std::string& text) {
  Require(!text.empty(), "an error has a message");
  Require(IsUtf8(text) && !HasControlByte(text), "an error is one line that can be shown", text);
}

void CheckError(const absl::Status& status) {
  const std::string text = Message(status);
  Show(text);
  if (absl::IsCancelled(status)) return;  // the text of --help or --version
  CheckCanBeShown(text);
  const bool names = text.find("--") != std::string::npos || text.find("MOORING_") != std::string::npos ||
                     text.find("following argument") != std::string::npos;
  Require(names, "an error names a flag", text);
}

template <typename Config>
void TryConfig(const CommandLine& line, absl::StatusOr<Config> (*parse)(int, const char* const*)) {
  const absl::StatusOr<Config> config = parse(line.argc(), line.argv.data());
  if (!config.ok()) return CheckError(config.status());
  const Lines arguments = ArgumentsOf(*config);
  Show("accepted: " + absl::StrJoin(arguments, " "));
  Lines words = {line.words.front()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const CommandLine written(words);
  const absl::StatusOr<Config> again = parse(written.argc(), written.argv.data());
  Require(again.ok(), "a configuration that was accepted is accepted again",
          absl::StrJoin(words, "\n") + "\n" + Message(again.status()));
  Require(ArgumentsOf(*again) == arguments, "a configuration is parsed to the same again",
          absl::StrJoin(arguments, "\n") + "\n\n" + absl::StrJoin(ArgumentsOf(*again), "\n"));
}

void TryMigrate(const CommandLine& line) {
  const auto config = manager::ParseMigrateConfig(line.argc(), line.argv.data());
  if (!config.ok()) return CheckError(config.status());
  Require(config->manager.etcd.has_value(), "a migration has its etcd");
}

// Whether each secret of the line is the value of a flag for secrets.
bool IsKeptSecret(const CommandLine& line) {
  for (std::size_t i = 0; i < line.words.size(); ++i) {
    if (!HasSecret(line.words[i])) continue;
    const bool is_value = i > 0 && line.words[i - 1] == "--secret" && !line.words[i].starts_with("-");
    if (!is_value && !line.words[i].starts_with("--secret=")) return false;
  }
  return true;
}

void TryCommand(const CommandLine& line) {
  std::ostringstream out, err;
  const int status = cli::CheckArguments(line.argc(), line.argv.data(), out, err);
  Show(err.str());
  Require(status == cli::kExitOk || status == cli::kExitUsage, "parsing does nothing", std::to_string(status));
  Require(status == cli::kExitOk || out.str().empty(), "a wrong command line prints no answer", out.str());
  Require(!IsKeptSecret(line) || !HasSecret(err.str() + out.str()), "no output contains a secret", err.str());
  if (status == cli::kExitOk) return;
  const Lines lines = absl::StrSplit(err.str(), '\n');
  Require(lines.size() == 3 && lines[1].starts_with("Try 'mooring"), "an error is a line and a hint", err.str());
  CheckCanBeShown(lines[0]);
}

int RunNothing(int /*argc*/, const char* const* /*argv*/, std::ostream& out, std::ostream& /*err*/) {
  out << "{\"volumes\":[],\"plugins\":[]}\n";
  return cli::kExitOk;
}

void AddAreas(CLI::App& root, cli::Action& chosen) {
  for (const cli::AddArea add : {cli::mounts_area::Add, cli::doctor_area::Add, cli::csi_area::Add,
                                 cli::manager_area::Add, cli::completion_area::Add}) {
    add(root, chosen);
  }
}

void TryCompletion(const CommandLine& line) {
  CLI::App root("Mooring", "mooring");
  cli::Action chosen;
  AddAreas(root, chosen);
  const std::string candidates =
      cli::completion_area::Candidates(root, {line.words.begin() + 1, line.words.end()}, RunNothing);
  Require(IsUtf8(candidates), "candidates can be shown", candidates);
}

// The helpers of mount(8): options that were accepted are the same when they are joined.
void TryHelper(const CommandLine& line, std::string_view letters, std::size_t count) {
  const auto parsed = cli::mount_csi::ParseHelperLine(line.argc(), line.argv.data(), letters, count);
  if (!parsed.ok()) return Require(!Message(parsed.status()).empty(), "an error has a message");
  const auto options = cli::mount_csi::ParseMountOptions(parsed->options);
  if (!options.ok()) {
    Require(!Message(options.status()).empty() && IsUtf8(Message(options.status())), "an error can be shown");
  }
  Lines words = {line.words.front()};
  if (!parsed->options.empty()) words.insert(words.end(), {"-o", absl::StrJoin(parsed->options, ",")});
  for (const auto& [letter, set] :
       std::map<char, bool>{{'f', parsed->fake}, {'n', parsed->no_table}, {'v', parsed->verbose}, {'a', parsed->all}}) {
    if (set) words.push_back(std::string("-") + letter);
  }
  words.insert(words.end(), parsed->words.begin(), parsed->words.end());
  const CommandLine written(words);
  const auto again = cli::mount_csi::ParseHelperLine(written.argc(), written.argv.data(), letters, count);
  Require(again.ok() && again->options == parsed->options && again->words == parsed->words &&
              again->fake == parsed->fake && again->all == parsed->all,
          "a line of a mount helper is parsed to the same again", absl::StrJoin(words, "\n"));
}

struct Program {
  const char* name;
  void (*attempt)(const CommandLine& line);
};
const std::vector<Program> kPrograms = {
    {"mooring", TryCommand},
    {"mooring-plugin", [](const CommandLine& line) { TryConfig<Config>(line, ParseConfig); }},
    {"mooring-manager", [](const CommandLine& line) { TryConfig<manager::Config>(line, manager::ParseConfig); }},
    {"migrate", TryMigrate},
    {"__complete", TryCompletion},
    {"mount.csi", [](const CommandLine& line) { TryHelper(line, "sfnv", 2); }},
    {"umount.csi", [](const CommandLine& line) { TryHelper(line, "afnlrv", 1); }}};

// The names of all commands and flags below `app`.
void AddNames(const CLI::App& app, Lines& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
      names.push_back("--" + name + "=");
    }
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names.push_back(command->get_name());
    AddNames(*command, names);
  }
}

// Adds the flags in the text of --help, and their variables.
void AddNamesInHelp(const std::string& help, Lines& names) {
  for (const std::string& word : Lines(absl::StrSplit(help, absl::ByAnyChar(" \n\t()[]:,;")))) {
    if (word.starts_with("--")) names.insert(names.end(), {word, word + "="});
    if (word.starts_with("MOORING_") || word == "CSI_ENDPOINT") names.push_back("$" + word + "=");
  }
}

template <typename Config>
std::string HelpOf(absl::StatusOr<Config> (*parse)(int, const char* const*)) {
  const CommandLine line({"program", "--help"});
  return Message(parse(line.argc(), line.argv.data()).status());
}

const Lines& Names() {
  static const Lines all = [] {
    Lines names = {"unix:///run/a.sock",
                   "/run/a.sock",
                   "/srv",
                   "/srv/a",
                   "relative",
                   "default",
                   "db",
                   "web-1",
                   "a=b",
                   "key=hunter2-secret",
                   "--secret",
                   "--secret=key=hunter2-secret",
                   "name=a,backend=image",
                   "name=b,backend=directory,path=/srv/b",
                   "name=c,backend=device,match=/dev/disk/by-id/x*",
                   "name=d,backend=tmpfs,size=1GiB",
                   "overcommit=2.5",
                   "name=default,backend=image,path=/srv/p",
                   "node",
                   "controller",
                   "monolith",
                   "helper",
                   "in-process",
                   "require",
                   "ignore",
                   "auto",
                   "zone=z1",
                   "topology.mooring.csi/zone=z1",
                   "rshared",
                   "rslave",
                   "private",
                   "inherit",
                   "1GiB",
                   "64Mi",
                   "0",
                   "1",
                   "60",
                   "-1",
                   "127.0.0.1:9850",
                   "[::1]:9850",
                   ":9850",
                   "unix:/run/m.sock",
                   "debug",
                   "json",
                   "text",
                   "etcd://a:1,b:2",
                   "etcd://localhost:2379",
                   "etcd://unix:/run/etcd.sock",
                   "sqlite",
                   "/m/",
                   "nobody",
                   "0:0",
                   "1000:1000",
                   "plugin",
                   "orchestrator",
                   "-o",
                   "ro,access=single-node-writer,wait=5",
                   "for=web,per-alloc=1,mount-flag=noatime",
                   "-fn",
                   "-a",
                   "--",
                   "-",
                   "",
                   "--help",
                   "--version",
                   "single-node-writer",
                   "ext4",
                   "noatime",
                   "[x]",
                   "'",
                   "\"",
                   "\\",
                   "{}",
                   "%s",
                   "@-"};
    CLI::App root("Mooring", "mooring");
    cli::Action chosen;
    AddAreas(root, chosen);
    AddNames(root, names);
    AddNamesInHelp(HelpOf<Config>(ParseConfig), names);
    AddNamesInHelp(HelpOf<manager::Config>(manager::ParseConfig), names);
    AddNamesInHelp(HelpOf<manager::MigrateConfig>(manager::ParseMigrateConfig), names);
    std::erase_if(names, [](const std::string& name) { return name.find('\n') != std::string::npos; });
    return names;
  }();
  return all;
}

// Changes lines, most often to names and values that the programs know.
class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  void Change(Lines& lines) {
    if (lines.empty() || Below(64) == 0) lines = {kPrograms[Below(kPrograms.size())].name};
    for (std::size_t changes = 1 + Below(4); changes > 0; --changes) ChangeOne(lines);
  }

 private:
  std::size_t Below(std::size_t count) { return random_() % count; }
  const std::string& Name() { return Names()[Below(Names().size())]; }

  void ChangeOne(Lines& lines) {
    const auto at = static_cast<std::ptrdiff_t>(1 + Below(lines.size()));
    const auto here = lines.begin() + at;
    if (here == lines.end() || Below(3) == 0) {
      lines.insert(here, Name());
    } else if (Below(5) == 0) {
      lines.erase(here);
    } else if (Below(5) == 0) {
      std::swap(*here, lines[1 + Below(lines.size() - 1)]);
    } else if (Below(4) == 0) {
      *here += Name();
    } else if (Below(3) == 0) {
      *here = Name();
    } else {
      std::string& text = *here;
      const std::size_t size = std::min<std::size_t>(text.size(), 2000);
      text.resize(size + 32);
      text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
      std::replace(text.begin(), text.end(), '\n', ' ');
    }
  }

  std::mt19937 random_;
};

}  // namespace

void TryOne(std::string_view input) {
  const Lines lines = absl::StrSplit(std::string(input), '\n');
  Variables variables;
  Lines words;
  for (std::string line : lines) {
    std::erase(line, '\0');
    if (line.starts_with("$")) {
      variables.Set(line.substr(1));
    } else {
      words.push_back(std::move(line));
    }
  }
  if (words.empty()) return;
  const CommandLine line(words);
  for (const Program& program : kPrograms) {
    if (words.front() == program.name) program.attempt(line);
  }
}

std::size_t Mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Lines lines = absl::StrSplit(std::string(Text(data, size)), '\n');
  Mutation(seed).Change(lines);
  const std::string text = absl::StrJoin(lines, "\n");
  if (text.size() > most) return 0;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace mooring::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mooring::fuzz::Mutate(data, size, most, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mooring::fuzz::TryOne(mooring::fuzz::Text(data, size));
  return 0;
}
