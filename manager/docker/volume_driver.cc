#include "manager/docker/volume_driver.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "manager/docker/create_options.h"
#include "manager/docker/docker_record.h"
#include "manager/records/names.h"
#include "manager/state/host_notes.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

using Json = nlohmann::json;

absl::StatusOr<std::string> StringOf(const Json& request, const char* field) {
  const auto found = request.find(field);
  if (found == request.end() || !found->is_string()) return InvalidArgument("the request has no field {}", field);
  return found->get<std::string>();
}

absl::StatusOr<VolumeKey> KeyOf(const Json& request) {
  MOORING_ASSIGN_OR_RETURN(std::string name, StringOf(request, "Name"));
  MOORING_RETURN_IF_ERROR(CheckName("the volume's name", name));
  return VolumeKey{.ns = kDockerNamespace, .id = std::move(name)};
}

// Docker gives each use of a volume an id, and keeps the id when its daemon restarts.
absl::StatusOr<std::string> MountIdOf(const Json& request) {
  MOORING_ASSIGN_OR_RETURN(std::string id, StringOf(request, "ID"));
  MOORING_RETURN_IF_ERROR(CheckName("the mount's ID", id));
  return id;
}

std::string AllocationOf(const std::string& mount_id) { return "docker-" + mount_id; }

absl::StatusOr<StringMap> OptionsOf(const Json& request) {
  StringMap options;
  const auto found = request.find("Opts");
  if (found == request.end() || found->is_null()) return options;
  if (!found->is_object()) return InvalidArgument("Opts is not a JSON object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return InvalidArgument("the value of option {} is not a string", Quote(key));
    options[key] = value.get<std::string>();
  }
  return options;
}

bool HasTopologies(const PluginStatus& plugin) {
  return std::any_of(plugin.instances.begin(), plugin.instances.end(),
                     [](const InstanceStatus& each) { return each.fingerprint.traits.topology; });
}

// The path that Docker binds into a container; empty: the volume is not attached.
std::string MountpointOf(const std::vector<AttachmentRecord>& attachments) {
  for (const AttachmentRecord& mount : attachments) {
    if (mount.phase == AttachmentRecord::Phase::kMounted && mount.volume.ns == kDockerNamespace &&
        !mount.attach_path.empty()) {
      return mount.attach_path;
    }
  }
  return "";
}

// A volume as Docker wants it. Docker shows the year 1 for a volume without a time.
Json Described(const Volume& volume, const AttachmentJournal& journal) {
  Json described = {{"Name", volume.key.id}, {"Mountpoint", MountpointOf(journal.Of(volume.key))}};
  if (volume.created_at) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(*volume.created_at);
    described["CreatedAt"] = fmt::format("{:%FT%TZ}", fmt::gmtime(seconds));
  }
  return described;
}

// The first filesystem capability that allows the use. A volume without a writer capability is only read.
absl::StatusOr<Capability> ChooseCapability(const Volume& volume, bool read_only) {
  std::optional<Capability> reader;
  for (const Capability& capability : volume.capabilities) {
    if (capability.attachment != AttachmentMode::kFileSystem) continue;
    if (read_only || !IsReader(capability.access)) return capability;
    if (!reader) reader = capability;
  }
  if (reader) return *reader;
  return FailedPrecondition(
      "volume {} is a block device, and the volume of a container is a directory: attach it with 'mooring attach', and "
      "give the device to the container with --device",
      ToString(volume.key));
}

// A request of Docker or Podman.
class DockerRequest {
 public:
  DockerRequest(const DockerVolumeDriver::Collaborators& with, const DockerVolumeDriver::Settings& settings, Json json,
                const DockerCall& call)
      : with_(with), settings_(settings), json_(std::move(json)), call_(call), until_(call.until) {}

  const IsAbandoned& is_abandoned() const { return call_.is_abandoned; }
  const std::string& caller() const { return call_.caller; }

  absl::StatusOr<Json> Create();
  absl::StatusOr<Json> Remove();
  absl::StatusOr<Json> Mount();
  absl::StatusOr<Json> Unmount();
  absl::StatusOr<Json> Path();
  absl::StatusOr<Json> Get();
  absl::StatusOr<Json> List();

 private:
  absl::StatusOr<std::string> OnlyPlugin();
  absl::StatusOr<Capability> DefaultCapability(const std::string& plugin);
  absl::Status SetSource(const DockerCreateOptions& options, Volume& volume);
  absl::Status PlaceHere(const PluginStatus& plugin, Volume& volume);
  absl::StatusOr<Volume> VolumeFrom(const VolumeKey& key, DockerCreateOptions options);
  absl::StatusOr<AttachRequest> AttachmentOf(const Volume& volume, const std::string& mount_id);
  std::string DirectoryOf(const VolumeKey& key) { return DockerDirectory(settings_.state_dir) + "/" + Escape(key.id); }

  const DockerVolumeDriver::Collaborators& with_;
  const DockerVolumeDriver::Settings& settings_;
  const Json json_;
  const DockerCall& call_;
  const Clock::time_point until_;
};

absl::StatusOr<std::string> DockerRequest::OnlyPlugin() {
  if (!settings_.default_plugin.empty()) return settings_.default_plugin;
  const std::vector<PluginStatus> plugins = with_.plugins.List();
  if (plugins.size() == 1) return plugins.front().name;
  if (plugins.empty()) {
    return FailedPrecondition("no CSI plugin is known yet: see 'mooring plugin run' and 'mooring plugin register'");
  }
  std::vector<std::string> names;
  for (const PluginStatus& plugin : plugins) names.push_back(plugin.name);
  return InvalidArgument("there are several CSI plugins: choose one with -o plugin=NAME: {}", fmt::join(names, ", "));
}

// Docker users share a volume between containers, so the mode that allows sharing is used if the plugin has it.
absl::StatusOr<Capability> DockerRequest::DefaultCapability(const std::string& plugin) {
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin ready, with_.plugins.WaitForNode(plugin, until_));
  bool several = ready.fingerprint.traits.node_single_writer;
  if (several && ready.fingerprint.traits.controller_service) {  // the mode is sent to both services
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin controller, with_.plugins.PickController(plugin, until_));
    several = controller.fingerprint.traits.controller_single_writer;
  }
  return Capability{.access = several ? AccessMode::kSingleNodeMultiWriter : AccessMode::kSingleNodeWriter};
}

absl::Status DockerRequest::SetSource(const DockerCreateOptions& options, Volume& volume) {
  volume.snapshot_id = options.from_snapshot;
  if (options.from_volume.empty()) return absl::OkStatus();
  const auto source = with_.volumes.Get({.ns = kDockerNamespace, .id = options.from_volume});
  if (!source.ok()) return Annotate(source.status(), "from-volume");
  volume.clone_id = source->external_id;
  if (volume.plugin.empty()) volume.plugin = source->plugin;
  return absl::OkStatus();
}

// Containers of this host will use the volume, so it has to be reachable from here. Some plugins make no volume without
// being told so. A volume that another host has created is the same volume here.
absl::Status DockerRequest::PlaceHere(const PluginStatus& plugin, Volume& volume) {
  const auto known = with_.volumes.Get(volume.key);
  if (known.ok()) {
    volume.required_topologies = known->required_topologies;
    volume.preferred_topologies = known->preferred_topologies;
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(known.status())) return known.status();
  const StringMap here = NodeTopology(plugin);
  if (here.empty() || !HasTopologies(plugin)) return absl::OkStatus();
  volume.required_topologies = volume.preferred_topologies = {{.segments = here}};
  return absl::OkStatus();
}

absl::StatusOr<Volume> DockerRequest::VolumeFrom(const VolumeKey& key, DockerCreateOptions options) {
  Volume volume;
  volume.key = key;
  volume.plugin = options.plugin;
  MOORING_RETURN_IF_ERROR(SetSource(options, volume));
  if (volume.plugin.empty()) {
    MOORING_ASSIGN_OR_RETURN(volume.plugin, OnlyPlugin());
  }
  MOORING_ASSIGN_OR_RETURN(const PluginStatus plugin, with_.plugins.Find(volume.plugin));  // fails for a mistyped name
  MOORING_RETURN_IF_ERROR(PlaceHere(plugin, volume));
  if (options.access) {
    volume.capabilities = {{.access = *options.access}};
  } else {
    MOORING_ASSIGN_OR_RETURN(const Capability capability, DefaultCapability(volume.plugin));
    volume.capabilities = {capability};
  }
  volume.mount_options = std::move(options.mount_options);
  volume.secrets = std::move(options.secrets);
  volume.parameters = std::move(options.parameters);
  volume.min_bytes = options.min_bytes;
  volume.max_bytes = options.max_bytes;
  return volume;
}

absl::StatusOr<Json> DockerRequest::Create() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(const StringMap texts, OptionsOf(json_));
  // `docker run -v db:/data --volume-driver mooring` creates the volume again, without its options.
  if (texts.empty()) {
    const auto known = with_.volumes.Get(key);
    if (known.ok() && known->state == Volume::State::kReady) return Json::object();
  }
  MOORING_ASSIGN_OR_RETURN(DockerCreateOptions options, ParseDockerOptions(texts));
  const DockerRecord record = {.read_only = options.read_only, .propagation = options.propagation};
  MOORING_ASSIGN_OR_RETURN(Volume volume, VolumeFrom(key, std::move(options)));
  MOORING_ASSIGN_OR_RETURN(const Volume created, with_.volumes.Create(std::move(volume), until_, is_abandoned()));
  MOORING_RETURN_IF_ERROR(StoreDockerRecord(with_.state, settings_.host, created, record));
  return Json::object();
}

// A registered volume belongs to its user: it is only deregistered.
absl::StatusOr<Json> DockerRequest::Remove() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  const auto volume = with_.volumes.Get(key);
  if (absl::IsNotFound(volume.status())) return Json::object();
  if (!volume.ok()) return volume.status();
  MOORING_RETURN_IF_ERROR(volume->created_here ? with_.volumes.Delete(key, until_, is_abandoned())
                                               : with_.volumes.Deregister(key, until_, is_abandoned()));
  MOORING_RETURN_IF_ERROR(RemoveDockerRecord(with_.state, settings_.host, *volume));
  // Not removed at an unmount, because another mount may just have created it.
  std::error_code never_mounted;
  std::filesystem::remove(DirectoryOf(key), never_mounted);
  return Json::object();
}

absl::StatusOr<AttachRequest> DockerRequest::AttachmentOf(const Volume& volume, const std::string& mount_id) {
  MOORING_ASSIGN_OR_RETURN(const DockerRecord record, LoadDockerRecord(with_.state, settings_.host, volume));
  AttachRequest request;
  MOORING_ASSIGN_OR_RETURN(request.capability, ChooseCapability(volume, record.read_only));
  request.volume = volume.key;
  request.plugin = volume.plugin;
  request.allocation = AllocationOf(mount_id);
  request.request = volume.key.id;
  request.read_only = record.read_only || IsReader(request.capability.access);
  request.mode = request.read_only ? ClaimMode::kRead : ClaimMode::kWrite;
  request.propagation = record.propagation;
  request.attach_path = DirectoryOf(volume.key) + "/" + Escape(mount_id);
  request.is_abandoned = is_abandoned();
  request.mounted_by = caller();
  request.has_older_user = call_.has_older_user;
  return request;
}

absl::StatusOr<Json> DockerRequest::Mount() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(const std::string mount_id, MountIdOf(json_));
  MOORING_ASSIGN_OR_RETURN(const Volume volume, with_.volumes.Get(key));
  MOORING_ASSIGN_OR_RETURN(const AttachRequest request, AttachmentOf(volume, mount_id));
  MOORING_RETURN_IF_ERROR(KeepBoot(with_.state, settings_.host, settings_.boot));
  MOORING_RETURN_IF_ERROR(MakeDirectories(DirectoryOf(key)));
  MOORING_RETURN_IF_ERROR(with_.attachments.Attach(request, nullptr, until_).status());
  return Json{{"Mountpoint", request.attach_path}};
}

absl::StatusOr<Json> DockerRequest::Unmount() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(const std::string mount_id, MountIdOf(json_));
  MOORING_ASSIGN_OR_RETURN(const bool was_repeat,
                           with_.attachments.EndRepeat(AllocationOf(mount_id), key.id, caller(), until_));
  if (was_repeat) return Json::object();
  // The container has ended, and Docker does not repeat a call that fails.
  MOORING_RETURN_IF_ERROR(
      with_.attachments.Detach(AllocationOf(mount_id), key.id, Attachments::Failure::kIsRepeated, nullptr, until_));
  return Json::object();
}

absl::StatusOr<Json> DockerRequest::Path() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_RETURN_IF_ERROR(with_.volumes.Get(key).status());
  return Json{{"Mountpoint", MountpointOf(with_.journal.Of(key))}};
}

absl::StatusOr<Json> DockerRequest::Get() {
  DockerVolumeFacts facts;
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(facts.volume, with_.volumes.Get(key));
  MOORING_ASSIGN_OR_RETURN(facts.record, LoadDockerRecord(with_.state, settings_.host, facts.volume));
  MOORING_ASSIGN_OR_RETURN(facts.claims, with_.store.ListClaims(key));
  facts.attachments = with_.journal.Of(key);
  if (auto plugin = with_.plugins.Find(facts.volume.plugin); plugin.ok()) facts.plugin = *std::move(plugin);
  Json described = Described(facts.volume, with_.journal);
  described["Status"] = DockerStatusOf(facts);
  return Json{{"Volume", std::move(described)}};
}

absl::StatusOr<Json> DockerRequest::List() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, with_.volumes.List(kDockerNamespace));
  Json list = Json::array();
  for (const Volume& volume : volumes) {
    list.push_back(Described(volume, with_.journal));
  }
  return Json{{"Volumes", std::move(list)}};
}

// The scope is local: a swarm creates a volume of the same name on each host.
absl::StatusOr<Json> Capabilities() { return Json{{"Capabilities", {{"Scope", "local"}}}}; }

using Answer = absl::StatusOr<Json> (DockerRequest::*)();
constexpr std::array<std::pair<std::string_view, Answer>, 7> kMethods = {{
    {"/VolumeDriver.Create", &DockerRequest::Create},
    {"/VolumeDriver.Remove", &DockerRequest::Remove},
    {"/VolumeDriver.Mount", &DockerRequest::Mount},
    {"/VolumeDriver.Unmount", &DockerRequest::Unmount},
    {"/VolumeDriver.Path", &DockerRequest::Path},
    {"/VolumeDriver.Get", &DockerRequest::Get},
    {"/VolumeDriver.List", &DockerRequest::List},
}};

absl::StatusOr<Json> AnswerTo(const std::string& method, DockerRequest& request) {
  if (method != "/VolumeDriver.Unmount") MOORING_RETURN_IF_ERROR(CheckAwaited(request.is_abandoned()));
  for (const auto& [name, answer] : kMethods) {
    if (name == method) return (request.*answer)();
  }
  return Unimplemented("there is no method {}", Quote(method));
}

// The options are not logged: they may be secret.
void LogRequest(const std::string& method, const Json& request, const absl::Status& status, Clock::time_point began) {
  log::Fields fields = {{"call", method},
                        {"ms", std::chrono::duration<double, std::milli>(Clock::now() - began).count()}};
  for (const char* field : {"Name", "ID"}) {
    if (const auto text = StringOf(request, field); text.ok()) fields.emplace_back(field, *text);
  }
  if (status.ok()) return log::Info("docker", fields);
  fields.emplace_back("error", Message(status));
  log::Warning("docker", fields);
}

std::string TextOf(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

absl::StatusOr<Json> Respond(const DockerVolumeDriver::Collaborators& with,
                             const DockerVolumeDriver::Settings& settings, const std::string& method,
                             const std::string& body, const DockerCall& call) {
  if (method == "/Plugin.Activate") return Json{{"Implements", {"VolumeDriver"}}};
  if (method == "/VolumeDriver.Capabilities") return Capabilities();
  const Clock::time_point began = Clock::now();
  Json json = body.empty() ? Json::object() : Json::parse(body, nullptr, false);
  if (!json.is_object()) return InvalidArgument("the request is not a JSON object");
  DockerRequest request(with, settings, json, call);
  absl::StatusOr<Json> answer = AnswerTo(method, request);
  LogRequest(method, json, answer.status(), began);
  if (answer.ok()) (*answer)["Err"] = "";
  return answer;
}

}  // namespace

DockerVolumeDriver::DockerVolumeDriver(const Collaborators& with, Settings settings)
    : with_(with), settings_(std::move(settings)) {}

std::string DockerVolumeDriver::Handle(const std::string& method, const std::string& body, const DockerCall& call) {
  const Clock::time_point began = Clock::now();
  const std::string_view name = std::string_view(method).substr(1);  // "VolumeDriver.Mount"
  CallRecorder* const recorder = settings_.recorder;
  if (recorder != nullptr) recorder->Begin(name);
  absl::StatusCode code = absl::StatusCode::kInternal;  // recorded if an exception ends the call
  const absl::Cleanup end = [&] {
    if (recorder != nullptr) recorder->End(name, code, Clock::now() - began);
  };
  const absl::StatusOr<Json> answer = Respond(with_, settings_, method, body, call);
  code = answer.status().code();
  return TextOf(answer.ok() ? *answer : Json{{"Err", OneLine(Message(answer.status()))}});
}

}  // namespace mooring::manager
