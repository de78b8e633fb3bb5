// Plugins: run, register, stop and status.
#include <fmt/format.h>

#include <set>

#include "absl/strings/str_split.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/connection.h"
#include "cli/manager/parse/value_text.h"
#include "cli/output/report.h"
#include "cli/output/table.h"
#include "mounter/propagation.h"

namespace mooring::cli::manager_area {
namespace {

constexpr char kDeclarer[] = "cli";

std::string CountText(const v1::RoleCount& count) { return fmt::format("{}/{}", count.healthy(), count.expected()); }

const v1::InstanceStatus* FirstSick(const v1::PluginStatus& plugin) {
  for (const v1::InstanceStatus& instance : plugin.instances()) {
    if (!instance.healthy()) return &instance;
  }
  return nullptr;
}

bool IsHealthy(const v1::PluginStatus& plugin) {
  const bool all = plugin.nodes().healthy() >= plugin.nodes().expected() &&
                   plugin.controllers().healthy() >= plugin.controllers().expected();
  return all && plugin.nodes().healthy() + plugin.controllers().healthy() > 0;
}

std::string HealthText(const v1::PluginStatus& plugin) { return IsHealthy(plugin) ? "healthy" : "unhealthy"; }

std::string MessageOf(const v1::PluginStatus& plugin) {
  const v1::InstanceStatus* sick = FirstSick(plugin);
  return sick != nullptr && !sick->words().empty() ? sick->words() : plugin.supervision();
}

std::string PluginTable(const v1::ListPluginsResponse& response) {
  Table table({"NAME", "NODES", "CONTROLLERS", "STATE", "WHAT IT SAYS"});
  for (const v1::PluginStatus& plugin : response.plugins()) {
    table.Add({plugin.name(), CountText(plugin.nodes()), CountText(plugin.controllers()), HealthText(plugin),
               MessageOf(plugin)});
  }
  return table.ToString();
}

std::string Names(const v1::ListPluginsResponse& response) {
  std::string names;
  for (const v1::PluginStatus& plugin : response.plugins()) names += Visible(plugin.name()) + "\n";
  return names;
}

std::string TypeText(v1::PluginType type) { return type == v1::CSI_CONTROLLER ? "controller" : "node"; }

std::string InstanceText(const v1::InstanceStatus& status) {
  Details details;
  const v1::Instance& instance = status.instance();
  details.Add("instance", fmt::format("{} ({}{})", instance.instance_id(), TypeText(instance.type()),
                                      status.front() ? ", in use" : ", behind another"));
  details.Add("  state", status.healthy() ? "healthy" : "unhealthy: " + status.words());
  details.Add("  socket", instance.socket_path());
  details.AddIf("  driver", fmt::format("{} {}", status.driver_name(), status.vendor_version()));
  details.AddIf("  node id", status.node_id());
  details.AddIf("  capabilities", Join({status.capabilities().begin(), status.capabilities().end()}, ", "));
  details.AddIf("  checked", TimeText(status.checked_at_ms()));
  return details.ToString();
}

std::string BindText(const v1::PluginBind& bind) {
  std::string text = fmt::format("{}:{}", bind.source(), bind.target());
  std::string options = bind.read_only() ? "ro" : "";
  if (bind.propagation() != v1::PROPAGATION_PRIVATE) {
    options += (options.empty() ? "" : ",") + ToString(bind.propagation());
  }
  return options.empty() ? text : text + ":" + options;
}

std::string PluginText(const v1::PluginStatus& plugin) {
  Details details;
  details.Add("name", plugin.name());
  details.Add("state", HealthText(plugin));
  details.Add("nodes", CountText(plugin.nodes()) + " healthy");
  details.Add("controllers", fmt::format("{} healthy{}", CountText(plugin.controllers()),
                                         plugin.controller_required() ? ", required" : ""));
  details.AddIf("runs", plugin.supervision());
  details.AddIf("endpoint", plugin.endpoint());
  for (const v1::PluginBind& bind : plugin.binds()) details.Add("bind", BindText(bind));
  details.AddIf("declared by", Join({plugin.declared_by().begin(), plugin.declared_by().end()}, ", "));
  std::string text = details.ToString();
  for (const v1::InstanceStatus& instance : plugin.instances()) text += InstanceText(instance);
  return text;
}

std::string DeclarerOf(const Arguments& arguments) {
  return arguments.declared_by.empty() ? kDeclarer : arguments.declared_by;
}

absl::Status FillExec(const Arguments& arguments, v1::PluginRun& run) {
  const absl::StatusOr<std::vector<std::string>> words = SplitWords(arguments.exec);
  if (!words.ok()) return Annotate(words.status(), "--exec");
  run.set_kind(v1::PluginRun::EXEC);
  run.mutable_command()->Assign(words->begin(), words->end());
  return absl::OkStatus();
}

enum class Kind { kAccess, kPropagation };

absl::StatusOr<Kind> SetOption(const std::string& option, v1::PluginBind& bind) {
  if (option == "ro" || option == "rw") {
    bind.set_read_only(option == "ro");
    return Kind::kAccess;
  }
  if (option.empty()) return InvalidArgument("an option is empty");
  const absl::StatusOr<v1::Propagation> propagation = ParsePropagation(option);
  if (!propagation.ok()) return InvalidArgument("{} is none of ro, rw, {}", Quote(option), kPropagationWords);
  bind.set_propagation(*propagation);
  return Kind::kPropagation;
}

// At most one option of each kind.
absl::Status SetOptions(const std::string& options, v1::PluginBind& bind) {
  std::set<Kind> given;
  const std::vector<std::string> parts = absl::StrSplit(options, ',');
  for (const std::string& option : parts) {
    MOORING_ASSIGN_OR_RETURN(const Kind kind, SetOption(option, bind));
    if (given.insert(kind).second) continue;
    return InvalidArgument("{} is one {} too many: give one", Quote(option),
                           kind == Kind::kAccess ? "of ro and rw" : "propagation");
  }
  return absl::OkStatus();
}

// Parses HOST:CONTAINER[:OPTION[,OPTION]], the form of Docker's --volume. INVALID_ARGUMENT quotes the text.
absl::StatusOr<v1::PluginBind> ParseBind(const std::string& text) {
  constexpr std::size_t kPaths = 2;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  const std::string what = fmt::format("--bind {}", Quote(text));
  if (parts.size() < kPaths || parts.size() > kPaths + 1 || !parts[0].starts_with('/') || !parts[1].starts_with('/')) {
    return InvalidArgument(what + ": write HOST:CONTAINER or HOST:CONTAINER:ro, with two absolute paths without ':'");
  }
  v1::PluginBind bind;
  bind.set_source(parts[0]);
  bind.set_target(parts[1]);
  if (parts.size() == kPaths) return bind;
  if (const absl::Status set = SetOptions(parts[kPaths], bind); !set.ok()) return Annotate(set, what);
  return bind;
}

absl::Status FillContainer(const Arguments& arguments, v1::PluginRun& run) {
  run.set_kind(v1::PluginRun::CONTAINER);
  run.set_image(arguments.image);
  for (const std::string& text : arguments.binds) {
    MOORING_ASSIGN_OR_RETURN(*run.add_binds(), ParseBind(text));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::RunPluginRequest> RunRequest(const Arguments& arguments) {
  if (arguments.exec.empty() == arguments.image.empty()) {
    return InvalidArgument("give either --exec COMMAND or --image IMAGE");
  }
  if (arguments.image.empty() && !arguments.binds.empty()) {
    return InvalidArgument("--bind is only for containers (--image): a program sees all paths of the host");
  }
  v1::RunPluginRequest request;
  request.set_name(arguments.plugin);
  request.set_declared_by(DeclarerOf(arguments));
  request.set_wait(!arguments.no_wait);
  v1::PluginRun& run = *request.mutable_run();
  if (!arguments.exec.empty()) MOORING_RETURN_IF_ERROR(FillExec(arguments, run));
  if (!arguments.image.empty()) MOORING_RETURN_IF_ERROR(FillContainer(arguments, run));
  run.set_engine(arguments.engine);
  for (const std::string& word : arguments.words) run.add_command(word);
  arguments.environment.CopyTo(*run.mutable_environment());
  if (arguments.start_timeout) {
    run.set_start_deadline_s(std::chrono::ceil<std::chrono::seconds>(*arguments.start_timeout).count());
  }
  return request;
}

// With --no-wait, the health is not known yet, so the exit status is 0.
template <typename Answer>
absl::Status ShowStarted(Session& session, const Answer& answer, const v1::PluginStatus& plugin) {
  if (!session.arguments.no_wait && !IsHealthy(plugin)) session.exit_status = kExitFailed;
  return session.Show(answer, PluginText(plugin));
}

absl::Status Run(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const v1::RunPluginRequest request, RunRequest(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const auto reply, CallWithSteps(session.client, &Manager::Stub::RunPlugin, request));
  return ShowStarted(session, reply.done(), reply.done());
}

absl::Status RegisterPlugin(Session& session) {
  v1::RegisterPluginRequest request;
  MOORING_ASSIGN_OR_RETURN(const std::string socket, ParseSocketPath(session.arguments.endpoint));
  request.set_name(session.arguments.plugin);
  request.set_endpoint("unix://" + socket);
  request.set_declared_by(DeclarerOf(session.arguments));
  request.set_wait(!session.arguments.no_wait);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::RegisterPlugin, request));
  return ShowStarted(session, response, response.plugin());
}

absl::Status Stop(Session& session) {
  v1::StopPluginRequest request;
  request.set_name(session.arguments.plugin);
  request.set_declared_by(session.arguments.declared_by);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::StopPlugin, request));
  const bool one = !request.declared_by().empty();
  return session.Show(
      response, one ? fmt::format("{} no longer needs {}\n", Visible(request.declared_by()), Visible(request.name()))
                    : fmt::format("stopped {}\n", Visible(request.name())));
}

absl::Status PluginStatus(Session& session) {
  v1::ListPluginsRequest request;
  request.set_name(session.arguments.plugin);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ListPlugins, request));
  if (session.arguments.quiet) return session.Show(response, Names(response));
  if (request.name().empty()) return session.Show(response, PluginTable(response));
  if (response.plugins().empty()) return NotFound("there is no plugin {}", Quote(request.name()));
  if (!IsHealthy(response.plugins(0))) session.exit_status = kExitFailed;
  return session.Show(response, PluginText(response.plugins(0)));
}

constexpr char kRunExamples[] =
    "In words and in values of variables, {endpoint} is replaced by the plugin's socket with unix://, {socket} by "
    "its\npath, and {node} by the name of this host.\nExamples:\n  mooring plugin run mooring.csi --exec "
    "'mooring-plugin --state-dir /var/lib/mooring'\n  mooring plugin run nfs.csi --image registry/csi-nfs:4 -- "
    "--nodeid '{node}' --endpoint '{endpoint}'\n  mooring plugin run boxed.csi --image mooring-plugin:1 --bind "
    "/srv/csi:/var/lib/mooring";

}  // namespace

Commands PluginCommands() {
  return {
      {"run",
       "Run a plugin and keep it running; the same name again replaces the plugin",
       {&kPluginName},
       {&kExec, &kImage, &kWords, &kEnvironment, &kEnvironmentFile, &kBind, &kEngine, &kStartTimeout, &kDeclaredBy,
        &kNoWait},
       Run,
       kRunExamples,
       kDefaultStartTimeout},
      {"register",
       "Use a plugin that another program runs",
       {&kEndpoint},
       {&kPluginToRegister, &kDeclaredBy, &kNoWait},
       RegisterPlugin,
       "Example:\n  mooring plugin register --endpoint unix:///run/csi/csi.sock"},
      {"stop", "Stop a plugin, or forget a registered one; its mounts stay", {&kPluginName}, {&kDeclaredByOne}, Stop},
      {"status",
       "Show the health of all plugins, or of one; exit status 0 or 1 for one",
       {},
       {&kPluginToShow, &kQuiet},
       PluginStatus},
  };
}

}  // namespace mooring::cli::manager_area
