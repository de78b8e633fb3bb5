// `mooring doctor`.
#include "cli/command/area.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/text/terminal_text.h"
#include "cli/doctor/draw.h"
#include "cli/doctor/examination.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/flags.h"
#include "cli/output/output.h"
#include "cli/output/report.h"

namespace mooring::cli::doctor_area {
namespace {

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

using Flag = FlagOf<Question>;

constexpr bool kLocal = false;  // not sent in a request, so it need not be UTF-8
constexpr Flag kSubject{"SUBJECT",          "", "Path, or ID of a volume (default: check all mounts)",
                        &Question::subject, "", kLocal};
constexpr Flag kPid{"--pid", "PID", "Process that should see the mount", &Question::pid};
constexpr Flag kContainer{
    "--container",        "ID", "Container that should see the mount: at least 12 digits of its ID",
    &Question::container, "",   kLocal};
constexpr Flag kEndpoint{"--endpoint",        "ENDPOINT",     "Socket of the driver, to check that it is served",
                         &Question::endpoint, "CSI_ENDPOINT", kLocal};
constexpr Flag kStateDir{
    "--state-dir",       "DIR", "State directory of the plugin (default: /var/lib/mooring)", &Question::state_dir,
    "MOORING_STATE_DIR", kLocal};
constexpr Flag kManager{"--manager",
                        "SOCKET",
                        "Socket of the manager, to show what it has not done yet (default: /run/mooring/manager.sock)",
                        &Question::manager,
                        "MOORING_MANAGER_SOCKET",
                        kLocal};
constexpr Flag kJson{"--json", "", "Print the answer as JSON", &Question::json};

int Run(const Question& question, const CLI::App& app, const Streams& streams) {
  const absl::StatusOr<Examination> examination = Examine(question);
  if (!examination.ok()) return Report(examination.status(), question.json, app, streams);
  streams.out << (question.json ? ToJson(*examination) : ToText(*examination));
  return HasProblems(examination->findings) ? kExitFindings : kExitOk;
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  CLI::App* app = root.add_subcommand("doctor", "Explain why a mount is not where it should be, and how to repair it");
  const auto question = std::make_shared<Question>();
  AddFlags<Question>(*app, {&kSubject, &kPid, &kContainer, &kEndpoint, &kStateDir, &kManager, &kJson},
                     /*required=*/false, *question);
  app->get_option("--container")->excludes("--pid");
  app->footer(
      "Exit status: 0 no problem, 3 a problem was found, 1 the subject could not be examined, 2 a wrong command "
      "line.\n"
      "Examples:\n"
      "  mooring doctor\n"
      "  mooring doctor /var/lib/kubelet --pid 4711\n"
      "  mooring doctor vol-fb44689d6842831595449ef3a5987e8e --container 5f2a90c1b7de");
  app->callback([question, app, &chosen] {
    chosen = [question, app](const Streams& streams) { return Run(*question, *app, streams); };
  });
}

}  // namespace mooring::cli::doctor_area
