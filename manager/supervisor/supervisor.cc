#include "manager/supervisor/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/file/path.h"
#include "base/socket_path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/launch/launcher.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

// An empty name is allowed.
absl::Status CheckDeclarer(const std::string& by) {
  return by.empty() ? absl::OkStatus() : CheckName("declared-by", by);
}

bool SameRun(const std::optional<PluginRecord::Run>& stored, PluginRecord::Run run) {
  if (!stored) return false;
  run.generation = stored->generation;
  return *stored == run;
}

void Add(std::vector<std::string>& declared_by, const std::string& by) {
  if (std::find(declared_by.begin(), declared_by.end(), by) == declared_by.end()) declared_by.push_back(by);
}

// The container engines of the declared plugins and of the instances that an earlier manager left.
std::set<std::string> EnginesOf(const std::vector<PluginRecord>& records, const std::vector<InstanceDirectory>& left) {
  std::set<std::string> engines;
  for (const PluginRecord& record : records) {
    if (record.run && record.run->kind == PluginRecord::Run::Kind::kContainer) engines.insert(record.run->engine);
  }
  for (const InstanceDirectory& directory : left) {
    if (directory.kind == PluginRecord::Run::Kind::kContainer) engines.insert(directory.engine);
  }
  return engines;
}

absl::Status NotDeclared(const std::string& name) {
  return NotFound("no plugin {} is declared on this host", Quote(name));
}

}  // namespace

Supervisor::Supervisor(RecordsStore& store, PluginSet& plugins, Events& events, CsiConnector connect, WorkQueue& work,
                       Launcher& exec, Launcher& container, Settings settings)
    : store_(store),
      plugins_(plugins),
      events_(events),
      deps_{plugins,
            events,
            std::move(connect),
            work,
            exec,
            container,
            std::move(settings),
            [this](const std::string& name, const std::vector<PluginType>& types) { KeepTypes(name, types); }},
      sweeps_(work, {.kind = "sweep", .is_routine = true}) {}

Supervisor::~Supervisor() { Stop(); }

absl::Status Supervisor::Start() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<InstanceDirectory> directories,
                           FindInstanceDirectories(deps_.settings.socket_root));
  LeftByPlugin left;
  for (const InstanceDirectory& directory : directories) left[directory.plugin].push_back(directory);
  MOORING_ASSIGN_OR_RETURN(const std::vector<PluginRecord> records, store_.ListPlugins(deps_.settings.host));
  MOORING_RETURN_IF_ERROR(DeregisterMissing(left, records));

  const std::lock_guard<std::mutex> lock(mutex_);
  for (const PluginRecord& record : records) {
    plugins_.Declare(record.name, record.types);
    auto of_it = left.extract(record.name);
    entries_[record.name] = {record, std::make_shared<SupervisedPlugin>(
                                         deps_, record, of_it ? of_it.mapped() : std::vector<InstanceDirectory>())};
  }
  for (const auto& [name, of_it] : left) {
    if (IsDamaged(name)) continue;
    PluginRecord none;
    none.name = name;
    terminating_.push_back(std::make_shared<SupervisedPlugin>(deps_, none, of_it));
  }
  for (const std::string& engine : EnginesOf(records, directories)) {
    const auto attempt = [this, engine] {
      EndStrays(engine);
      return absl::OkStatus();  // tried once
    };
    sweeps_.Push({.key = engine, .lane = engine, .attempt = attempt});
  }
  return absl::OkStatus();
}

// An engine that is away is not reported here: the status of its plugins shows it.
void Supervisor::EndStrays(const std::string& engine) {
  const auto until = Clock::now() + deps_.settings.end_time;
  const absl::Status ended = deps_.container.EndStrays(engine, until, stop_.get_token());
  if (ended.ok() || absl::IsUnavailable(ended) || absl::IsCancelled(ended)) return;
  events_.Add({.bad = true,
               .kind = "failed",
               .text = "The containers that an earlier manager left cannot be removed: " + Message(ended)});
}

// The instances of a plugin with a damaged record go on, because nobody has said that they should end.
bool Supervisor::IsDamaged(const std::string& plugin) const {
  return store_.IsUnreadable(PluginStateKey(deps_.settings.host, plugin));
}

// After a reboot, or after a directory was removed, instances are still registered that are gone.
absl::Status Supervisor::DeregisterMissing(const LeftByPlugin& left, const std::vector<PluginRecord>& records) {
  std::vector<std::string> there;
  for (const auto& [name, of_it] : left) {
    for (const InstanceDirectory& directory : of_it) there.push_back(directory.id);
  }
  for (const PluginRecord& record : records) there.push_back(EndpointInstanceId(record));
  for (const PluginStatus& plugin : plugins_.List()) {
    if (IsDamaged(plugin.name)) continue;
    for (const InstanceStatus& each : plugin.instances) {
      const std::string& id = each.instance.instance_id;
      if (std::find(there.begin(), there.end(), id) != there.end()) continue;
      MOORING_RETURN_IF_ERROR(plugins_.Retire(plugin.name, id, kEarlierManager));
    }
  }
  return absl::OkStatus();
}

absl::Status Supervisor::Store(PluginRecord& record) {
  MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, store_.Commit(Changes().Put(deps_.settings.host, record)));
  record.revisions.SetStored(revision);
  return absl::OkStatus();
}

std::shared_ptr<SupervisedPlugin> Supervisor::FindTerminating(const std::string& name) {
  std::erase_if(terminating_, [](const auto& plugin) { return plugin->IsOver(); });
  const auto found = std::find_if(terminating_.begin(), terminating_.end(),
                                  [&](const auto& plugin) { return plugin->name() == name; });
  return found == terminating_.end() ? nullptr : *found;
}

absl::StatusOr<std::shared_ptr<SupervisedPlugin>> Supervisor::Declare(PluginRecord record,
                                                                      const std::string& declared_by) {
  if (closed_) return Unavailable("the manager is stopping");
  if (const auto before = FindTerminating(record.name); before && record.run && before->FailedToTerminate()) {
    return Unavailable("plugin {} was stopped, and its process could not be ended yet; try again later",
                       Quote(record.name));
  }
  Add(record.declared_by, declared_by);
  MOORING_RETURN_IF_ERROR(Store(record));
  plugins_.Declare(record.name, record.types);
  const auto found = entries_.find(record.name);
  if (found == entries_.end()) {
    auto plugin = std::make_shared<SupervisedPlugin>(deps_, record, std::vector<InstanceDirectory>());
    return entries_.insert({record.name, Entry{record, std::move(plugin)}}).first->second.plugin;
  }
  found->second.record = record;
  found->second.plugin->Want(record);
  return found->second.plugin;
}

absl::Status Supervisor::RunPlugin(const std::string& name, const PluginRecord::Run& asked,
                                   const std::string& declared_by, bool wait, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", name));
  MOORING_RETURN_IF_ERROR(CheckDeclarer(declared_by));
  const ManagerPaths paths = {deps_.settings.root, deps_.settings.socket_root};
  MOORING_ASSIGN_OR_RETURN(const PluginRecord::Run run, CheckRun(asked, paths));
  std::shared_ptr<SupervisedPlugin> plugin;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(name);
    PluginRecord record = found == entries_.end() ? PluginRecord() : found->second.record;
    record.name = name;
    record.endpoint.clear();
    if (!SameRun(record.run, run)) {
      // A generation is never used twice, also where an endpoint was registered in between: revisions only grow.
      const std::uint64_t before = record.run ? record.run->generation : 0;
      const std::uint64_t generation = std::max(before, static_cast<std::uint64_t>(record.revisions.modify)) + 1;
      record.run = run;
      record.run->generation = generation;
    }
    MOORING_ASSIGN_OR_RETURN(plugin, Declare(std::move(record), declared_by));
  }
  return wait ? plugin->WaitUntilServing(until) : absl::OkStatus();
}

absl::StatusOr<std::string> Supervisor::AskName(const std::string& socket_path, Clock::time_point until) const {
  const auto channel = deps_.connect(socket_path, "");
  const auto time = std::min(until, Clock::now() + deps_.settings.watch.probe_time);
  const auto info = Call(*channel, csi::v1::GetPluginInfoRequest(), time);
  if (!info.ok()) {
    return Annotate(info.status(),
                    fmt::format("ask the plugin at {} for its name; give the name if the plugin does not run yet",
                                Quote(socket_path)));
  }
  return info->name();
}

absl::StatusOr<std::string> Supervisor::RegisterEndpoint(const std::string& name, const std::string& socket_path,
                                                         const std::string& declared_by, bool wait,
                                                         Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckDeclarer(declared_by));
  MOORING_ASSIGN_OR_RETURN(const std::string parsed, ParseSocketPath(socket_path));
  MOORING_ASSIGN_OR_RETURN(const std::string path, NormalisePath("the endpoint", parsed));
  std::string known_as = name;
  if (known_as.empty()) {
    MOORING_ASSIGN_OR_RETURN(known_as, AskName(path, until));
  }
  MOORING_RETURN_IF_ERROR(CheckName("the plugin's name", known_as));
  std::shared_ptr<SupervisedPlugin> plugin;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(known_as);
    PluginRecord record = found == entries_.end() ? PluginRecord() : found->second.record;
    record.name = known_as;
    record.run.reset();
    record.endpoint = path;
    MOORING_ASSIGN_OR_RETURN(plugin, Declare(std::move(record), declared_by));
  }
  if (wait) {
    MOORING_RETURN_IF_ERROR(plugin->WaitUntilServing(until));
  }
  return known_as;
}

absl::Status Supervisor::StopPlugin(const std::string& name, const std::string& declared_by, Clock::time_point until) {
  std::shared_ptr<SupervisedPlugin> plugin;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      plugin = FindTerminating(name);
      if (!plugin) return NotDeclared(name);
    } else {
      MOORING_ASSIGN_OR_RETURN(plugin, Undeclare(found, declared_by));
    }
  }
  return plugin ? plugin->Terminate(until) : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<SupervisedPlugin>> Supervisor::Undeclare(Entries::iterator found,
                                                                        const std::string& declared_by) {
  PluginRecord record = found->second.record;
  if (!declared_by.empty() && std::erase(record.declared_by, declared_by) == 0) {
    return NotFound("plugin {} is not declared by {}", Quote(record.name), Quote(declared_by));
  }
  if (!declared_by.empty() && !record.declared_by.empty()) {
    MOORING_RETURN_IF_ERROR(Store(record));
    found->second.record = record;
    return nullptr;
  }
  // The record goes first: a manager that is killed after this ends the instances at its next start.
  MOORING_RETURN_IF_ERROR(store_.Commit(Changes().Delete(deps_.settings.host, found->second.record)).status());
  auto plugin = std::move(found->second.plugin);
  plugins_.Undeclare(found->first);
  entries_.erase(found);
  terminating_.push_back(plugin);
  return plugin;
}

void Supervisor::KeepTypes(const std::string& name, const std::vector<PluginType>& types) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.record.types == types) return;
  PluginRecord record = found->second.record;
  record.types = types;
  if (const absl::Status stored = Store(record); !stored.ok()) {
    events_.Add({.bad = true,
                 .kind = "failed",
                 .plugin = name,
                 .text = "The services of the plugin cannot be stored: " + Message(stored)});
    return;
  }
  found->second.record = record;
  plugins_.Declare(name, types);
}

std::vector<PluginRecord> Supervisor::Declared() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<PluginRecord> records;
  records.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) records.push_back(entry.record);
  return records;
}

std::map<std::string, std::uint64_t> Supervisor::Restarts() const {
  std::map<std::string, std::uint64_t> restarts;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.record.run) restarts[name] = entry.plugin->restarts();
  }
  return restarts;
}

std::string Supervisor::StatusText(const std::string& name) const {
  std::shared_ptr<SupervisedPlugin> plugin;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return "";
    plugin = found->second.plugin;
  }
  return plugin->StatusText();
}

std::vector<std::shared_ptr<SupervisedPlugin>> Supervisor::Close() {
  std::vector<std::shared_ptr<SupervisedPlugin>> plugins;
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  plugins = terminating_;
  for (auto& [name, entry] : entries_) plugins.push_back(entry.plugin);
  return plugins;
}

void Supervisor::BeginStop() {
  stop_.request_stop();
  sweeps_.BeginStop();
  for (const auto& plugin : Close()) plugin->BeginStop();
}

void Supervisor::Stop() {
  BeginStop();  // asks all plugins at once, before it waits for the first
  for (const auto& plugin : Close()) plugin->Stop();
  sweeps_.Stop();
}

}  // namespace mooring::manager
