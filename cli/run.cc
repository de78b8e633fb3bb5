#include "cli/run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "base/version.h"
#include "cli/command/area.h"
#include "cli/completion/candidates.h"
#include "cli/completion/man_page.h"
#include "cli/mount_csi/mount_csi.h"
#include "cli/output/report.h"

namespace mooring::cli {
namespace {

constexpr AddArea kAreas[] = {mounts_area::Add, doctor_area::Add, csi_area::Add, manager_area::Add,
                              completion_area::Add};

// The deepest command that was recognised.
const CLI::App& Recognised(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

bool NeedsCommand(const CLI::App& app) { return app.get_require_subcommand_min() > 0; }

// The error for an unknown flag or an argument too many; empty if there is none.
// CLI11 would repeat such arguments in full, and the value of a mistyped --secret may be one of them. So this names an
// unknown flag without its value, and an argument only if there is no secret on the command line.
std::string StrayArgument(int argc, const char* const* argv, const CLI::App& root) {
  const std::vector<std::string> strays = root.remaining(true);
  for (const std::string& stray : strays) {
    if (stray.starts_with("-")) return "there is no flag " + Quote(stray.substr(0, stray.find('=')));
  }
  if (strays.empty()) return "";
  const auto is_secret = [](std::string_view argument) { return argument.starts_with("--secret"); };
  if (std::any_of(argv, argv + argc, is_secret)) return "there is an argument too many";
  if (NeedsCommand(Recognised(root))) return "there is no command " + Quote(strays.front());
  return Quote(strays.front()) + " is an argument too many";
}

int UsageError(std::string_view message, const CLI::App& root, std::ostream& err) {
  err << "mooring: " << Visible(message) << '\n' << UsageHint(Recognised(root));
  return kExitUsage;
}

int Parse(int argc, const char* const* argv, CLI::App& root, const Streams& streams) {
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    root.exit(asked, streams.out, streams.err);
  } catch (const CLI::ParseError& error) {
    // An argument too many explains more than a missing one, so it comes first.
    std::string message = StrayArgument(argc, argv, root);
    if (message.empty() && NeedsCommand(Recognised(root))) {
      message = "a command is missing";
    }
    return UsageError(message.empty() ? error.what() : message, root, streams.err);
  }
  return kExitOk;
}

// The program without arguments. Parsing them stores the action of the command in `chosen`.
std::unique_ptr<CLI::App> MakeRoot(Action& chosen) {
  auto root = std::make_unique<CLI::App>("Mooring: storage volumes for tasks.", "mooring");
  root->set_version_flag("--version", std::string("mooring ") + Version() + " (" + Commit() + ")");
  root->require_subcommand(1);
  for (const AddArea add : kAreas) add(*root, chosen);
  return root;
}

}  // namespace

int CheckArguments(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  Action chosen;
  const std::unique_ptr<CLI::App> root = MakeRoot(chosen);
  return Parse(argc, argv, *root, {out, err});
}

int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  const Streams streams{out, err};
  if (const auto helper = argc > 0 ? mount_csi::HelperNamed(argv[0]) : nullptr) return helper(argc, argv, streams);
  Action chosen;
  const std::unique_ptr<CLI::App> root = MakeRoot(chosen);
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {  // from the scripts of `mooring completion`
    out << completion_area::Candidates(*root, {argv + 2, argv + argc}, Run);
    return kExitOk;
  }
  if (argc > 1 && std::string_view(argv[1]) == "__man_page") {  // at the build: CMakeLists.txt
    out << completion_area::ManPageOf(*root);
    return kExitOk;
  }

  int status = Parse(argc, argv, *root, streams);
  if (chosen && status == kExitOk) status = chosen(streams);
  if (!out.flush()) {
    err << "mooring: cannot write the answer to the standard output\n";
    return kExitFailed;
  }
  return status;
}

}  // namespace mooring::cli
