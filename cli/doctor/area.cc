#include "cli/doctor/area.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/doctor/draw.h"
#include "cli/doctor/examination.h"
#include "cli/flags/key_values.h"
#include "cli/flags/options.h"
#include "cli/output/json.h"
#include "cli/output/report.h"
#include "cli/output/text.h"
#include "cli/run.h"

namespace mooring::cli::doctor_area {
namespace {

struct Arguments {
  Question question;
  bool json = false;
};

const char* ToText(Severity severity) {
  switch (severity) {
    case Severity::kProblem:
      return "problem";
    case Severity::kNote:
      return "note";
  }
  return "problem";
}

bool HasProblems(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kProblem; });
}

std::string FindingText(const Finding& finding) {
  std::string text = fmt::format("{} ({}): {}\n", ToText(finding.severity), finding.kind, Visible(finding.what));
  for (const std::string& command : finding.commands) text += "  # " + Visible(command) + "\n";
  return text;
}

std::string ToText(const Examination& examination) {
  std::string text;
  const NamespaceView& here = examination.graph.views.front();
  const Lines lines = LinesOfLocale();
  for (const Tree& tree : examination.trees) {
    text += Visible(tree.title) + "\n" + DrawTree(tree.group, here, lines) + "\n";
  }
  for (const std::string& sentence : examination.seen) text += Visible(sentence) + "\n";
  for (const Finding& finding : examination.findings) text += FindingText(finding);
  if (!HasProblems(examination.findings)) text += "nothing wrong\n";
  return text + "checked: " + Visible(Join(examination.checked, ", ")) + "\n";
}

std::string FindingJson(const Finding& finding) {
  JsonObject json;
  json.Add("kind", finding.kind).Add("severity", ToText(finding.severity)).Add("what", finding.what);
  return json.AddRaw("commands", JsonStrings(finding.commands)).ToString();
}

std::string ToJson(const Examination& examination) {
  std::vector<std::string> findings, trees;
  for (const Finding& finding : examination.findings) findings.push_back(FindingJson(finding));
  for (const Tree& tree : examination.trees) {
    trees.push_back(JsonObject().Add("title", tree.title).AddRaw("tree", TreeJson(tree.group)).ToString());
  }
  JsonObject json;
  json.AddRaw("findings", JsonArray(findings)).AddRaw("seen", JsonStrings(examination.seen));
  return json.AddRaw("trees", JsonArray(trees)).AddRaw("checked", JsonStrings(examination.checked)).ToString() + "\n";
}

int Run(const Arguments& arguments, const CLI::App& app, const Streams& streams) {
  const absl::StatusOr<Examination> examination = Examine(arguments.question);
  if (!examination.ok()) return Report(examination.status(), arguments.json, app, streams);
  streams.out << (arguments.json ? ToJson(*examination) : ToText(*examination));
  return HasProblems(examination->findings) ? kExitFindings : kExitOk;
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  CLI::App* app = root.add_subcommand("doctor", "why a mount is not where it should be, and what mends it");
  const auto arguments = std::make_shared<Arguments>();
  Question& question = arguments->question;
  question.state_dir = "/var/lib/mooring";
  AddText(*app, "SUBJECT", "", "a path, or a volume's id (a general check-up)", question.subject);
  CLI::Option* pid = AddPid(*app, "--pid", "it should be seen by this process", question.pid);
  AddText(*app, "--container", "ID", "it should be seen in this container", question.container)->excludes(pid);
  AddText(*app, "--endpoint", "ENDPOINT", "a driver's socket, to see whether somebody serves it", question.endpoint)
      ->envname("CSI_ENDPOINT");
  AddText(*app, "--state-dir", "DIR", "of the plugin (/var/lib/mooring)", question.state_dir)
      ->envname("MOORING_STATE_DIR");
  app->add_flag("--json", arguments->json, "print the answer as JSON");
  app->footer(
      "Exit status: 0 nothing wrong, 3 something is, 1 it could not be examined, 2 a wrong command line.\n"
      "Examples:\n"
      "  mooring doctor\n"
      "  mooring doctor /var/lib/kubelet --pid 4711\n"
      "  mooring doctor vol-fb44689d6842831595449ef3a5987e8e --container 5f2a90c1b7de");
  app->callback([arguments, app, &chosen] {
    chosen = [arguments, app](const Streams& streams) { return Run(*arguments, *app, streams); };
  });
}

}  // namespace mooring::cli::doctor_area
