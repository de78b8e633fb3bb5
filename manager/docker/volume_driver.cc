#include "manager/docker/volume_driver.h"

#include <fmt/format.h>

#include <array>
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
#include "manager/docker/create_options.h"
#include "manager/docker/docker_record.h"
#include "manager/docker/volume_status.h"
#include "manager/manager.h"
#include "manager/records/names.h"
#include "manager/state/boot.h"
#include "manager/state/keys.h"
#include "manager/volumes/places.h"

namespace mooring::manager {
namespace {

using Json = nlohmann::json;

constexpr char kNamespace[] = "docker";

absl::StatusOr<std::string> StringOf(const Json& request, const char* field) {
  const auto found = request.find(field);
  if (found == request.end() || !found->is_string()) {
    return InvalidArgument(fmt::format("the request has no {}", field));
  }
  return found->get<std::string>();
}

absl::StatusOr<VolumeKey> KeyOf(const Json& request) {
  MOORING_ASSIGN_OR_RETURN(std::string name, StringOf(request, "Name"));
  MOORING_RETURN_IF_ERROR(CheckName("the volume's name", name));
  return VolumeKey{.ns = kNamespace, .id = std::move(name)};
}

// Docker has one for each use of a volume, which it keeps over its restarts.
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
  if (!found->is_object()) return InvalidArgument("Opts is no JSON object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return InvalidArgument(fmt::format("the option {} is no text", Quote(key)));
    options[key] = value.get<std::string>();
  }
  return options;
}

// What Docker binds into a container.
std::string MountpointOf(const std::vector<AttachmentRecord>& attachments) {
  for (const AttachmentRecord& mount : attachments) {
    if (mount.phase == AttachmentRecord::Phase::kMounted && mount.volume.ns == kNamespace &&
        !mount.attach_path.empty()) {
      return mount.attach_path;
    }
  }
  return "";
}

// The first of the volume's that goes with what is to be done; a volume that has none for writers is read.
absl::StatusOr<Capability> ChooseCapability(const Volume& volume, bool read_only) {
  std::optional<Capability> reader;
  for (const Capability& capability : volume.capabilities) {
    if (capability.attachment != AttachmentMode::kFileSystem) continue;
    if (read_only || !IsReader(capability.access)) return capability;
    if (!reader) reader = capability;
  }
  if (reader) return *reader;
  return FailedPrecondition(
      fmt::format("volume {} is a block device, and containers' volumes are directories: "
                  "attach it by 'mooring attach' and give the container that --device",
                  ToString(volume.key)));
}

// One request.
class Request {
 public:
  Request(Parts& parts, const std::string& default_plugin, Json json, Clock::time_point until)
      : parts_(parts), default_plugin_(default_plugin), json_(std::move(json)), until_(until) {}

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
  absl::StatusOr<Volume> VolumeFrom(const VolumeKey& key, DockerCreateOptions options);
  absl::StatusOr<AttachRequest> AttachmentOf(const Volume& volume, const std::string& mount_id);
  std::string DirectoryOf(const VolumeKey& key) {
    return DockerDirectory(parts_.config.state_dir) + "/" + Escape(key.id);
  }
  const std::string& Host() const { return parts_.config.host; }

  Parts& parts_;
  const std::string& default_plugin_;
  const Json json_;
  const Clock::time_point until_;
};

absl::StatusOr<std::string> Request::OnlyPlugin() {
  if (!default_plugin_.empty()) return default_plugin_;
  const std::vector<PluginStatus> plugins = parts_.plugins->List();
  if (plugins.size() == 1) return plugins.front().name;
  if (plugins.empty()) {
    return FailedPrecondition("no CSI plugin is known yet: see 'mooring plugin run' and 'mooring plugin register'");
  }
  std::vector<std::string> names;
  for (const PluginStatus& plugin : plugins) names.push_back(plugin.name);
  return InvalidArgument(
      fmt::format("there are several CSI plugins: say -o plugin=NAME, one of {}", fmt::join(names, ", ")));
}

// Docker's users share a volume among containers, so the mode that allows it comes first where the plugin knows it.
absl::StatusOr<Capability> Request::DefaultCapability(const std::string& plugin) {
  MOORING_ASSIGN_OR_RETURN(const ReadyPlugin ready, parts_.plugins->WaitForNode(plugin, until_));
  bool several = ready.fingerprint.traits.node_single_writer;
  if (several && ready.fingerprint.traits.controller_service) {  // both services are told of it
    MOORING_ASSIGN_OR_RETURN(const ReadyPlugin controller, parts_.plugins->PickController(plugin, until_));
    several = controller.fingerprint.traits.controller_single_writer;
  }
  return Capability{.access = several ? AccessMode::kSingleNodeMultiWriter : AccessMode::kSingleNodeWriter};
}

absl::Status Request::SetSource(const DockerCreateOptions& options, Volume& volume) {
  volume.snapshot_id = options.from_snapshot;
  if (options.from_volume.empty()) return absl::OkStatus();
  const auto source = parts_.volumes->Get({.ns = kNamespace, .id = options.from_volume});
  if (!source.ok()) return Annotate(source.status(), "from-volume");
  volume.clone_id = source->external_id;
  if (volume.plugin.empty()) volume.plugin = source->plugin;
  return absl::OkStatus();
}

absl::StatusOr<Volume> Request::VolumeFrom(const VolumeKey& key, DockerCreateOptions options) {
  Volume volume;
  volume.key = key;
  volume.plugin = options.plugin;
  MOORING_RETURN_IF_ERROR(SetSource(options, volume));
  if (volume.plugin.empty()) {
    MOORING_ASSIGN_OR_RETURN(volume.plugin, OnlyPlugin());
  }
  MOORING_RETURN_IF_ERROR(parts_.plugins->Find(volume.plugin).status());  // a name mistyped is not waited for
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

absl::StatusOr<Json> Request::Create() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(const StringMap texts, OptionsOf(json_));
  // `docker run -v db:/data --volume-driver mooring` of a volume that is there, whatever it was made with.
  if (texts.empty()) {
    const auto known = parts_.volumes->Get(key);
    if (known.ok() && known->state == Volume::State::kReady) return Json::object();
  }
  MOORING_ASSIGN_OR_RETURN(DockerCreateOptions options, ParseDockerOptions(texts));
  const DockerRecord record = {.read_only = options.read_only, .propagation = options.propagation};
  MOORING_ASSIGN_OR_RETURN(Volume volume, VolumeFrom(key, std::move(options)));
  MOORING_ASSIGN_OR_RETURN(const Volume created, parts_.volumes->Create(std::move(volume), until_));
  MOORING_RETURN_IF_ERROR(StoreDockerRecord(*parts_.state, Host(), created, record));
  return Json::object();
}

// What somebody registered is theirs to delete: here it is only forgotten.
absl::StatusOr<Json> Request::Remove() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  const auto volume = parts_.volumes->Get(key);
  if (absl::IsNotFound(volume.status())) return Json::object();
  if (!volume.ok()) return volume.status();
  MOORING_RETURN_IF_ERROR(volume->created_here ? parts_.volumes->Delete(key, until_)
                                               : parts_.volumes->Deregister(key, until_));
  MOORING_RETURN_IF_ERROR(RemoveDockerRecord(*parts_.state, Host(), *volume));
  // Not at an unmount: another mount may just have made it.
  std::error_code never_mounted;
  std::filesystem::remove(DirectoryOf(key), never_mounted);
  return Json::object();
}

absl::StatusOr<AttachRequest> Request::AttachmentOf(const Volume& volume, const std::string& mount_id) {
  MOORING_ASSIGN_OR_RETURN(const DockerRecord record, LoadDockerRecord(*parts_.state, Host(), volume));
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
  return request;
}

absl::StatusOr<Json> Request::Mount() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(const std::string mount_id, MountIdOf(json_));
  MOORING_ASSIGN_OR_RETURN(const Volume volume, parts_.volumes->Get(key));
  MOORING_ASSIGN_OR_RETURN(const AttachRequest request, AttachmentOf(volume, mount_id));
  MOORING_RETURN_IF_ERROR(KeepBoot(*parts_.state, Host(), parts_.boot));
  MOORING_RETURN_IF_ERROR(MakeDirectories(DirectoryOf(key)));
  MOORING_RETURN_IF_ERROR(parts_.attachments
                              ->Attach(
                                  request, [](const std::string&) {}, until_)
                              .status());
  return Json{{"Mountpoint", request.attach_path}};
}

absl::StatusOr<Json> Request::Unmount() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(const std::string mount_id, MountIdOf(json_));
  MOORING_RETURN_IF_ERROR(parts_.attachments->Detach(
      AllocationOf(mount_id), key.id, [](const std::string&) {}, until_));
  return Json::object();
}

absl::StatusOr<Json> Request::Path() {
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_RETURN_IF_ERROR(parts_.volumes->Get(key).status());
  return Json{{"Mountpoint", MountpointOf(parts_.journal->Of(key))}};
}

absl::StatusOr<Json> Request::Get() {
  DockerVolumeFacts facts;
  MOORING_ASSIGN_OR_RETURN(const VolumeKey key, KeyOf(json_));
  MOORING_ASSIGN_OR_RETURN(facts.volume, parts_.volumes->Get(key));
  MOORING_ASSIGN_OR_RETURN(facts.record, LoadDockerRecord(*parts_.state, Host(), facts.volume));
  MOORING_ASSIGN_OR_RETURN(facts.claims, parts_.store.ListClaims(key));
  facts.attachments = parts_.journal->Of(key);
  if (auto plugin = parts_.plugins->Find(facts.volume.plugin); plugin.ok()) facts.plugin = *std::move(plugin);
  return Json{{"Volume",
               {{"Name", key.id}, {"Mountpoint", MountpointOf(facts.attachments)}, {"Status", DockerStatusOf(facts)}}}};
}

absl::StatusOr<Json> Request::List() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, parts_.volumes->List(kNamespace));
  Json list = Json::array();
  for (const Volume& volume : volumes) {
    list.push_back({{"Name", volume.key.id}, {"Mountpoint", MountpointOf(parts_.journal->Of(volume.key))}});
  }
  return Json{{"Volumes", std::move(list)}};
}

// Volumes are this host's own: a swarm makes one of that name on each.
absl::StatusOr<Json> Capabilities() { return Json{{"Capabilities", {{"Scope", "local"}}}}; }

using Answer = absl::StatusOr<Json> (Request::*)();
constexpr std::array<std::pair<std::string_view, Answer>, 7> kMethods = {{
    {"/VolumeDriver.Create", &Request::Create},
    {"/VolumeDriver.Remove", &Request::Remove},
    {"/VolumeDriver.Mount", &Request::Mount},
    {"/VolumeDriver.Unmount", &Request::Unmount},
    {"/VolumeDriver.Path", &Request::Path},
    {"/VolumeDriver.Get", &Request::Get},
    {"/VolumeDriver.List", &Request::List},
}};

absl::StatusOr<Json> AnswerTo(const std::string& method, Request& request) {
  for (const auto& [name, answer] : kMethods) {
    if (name == method) return (request.*answer)();
  }
  return Unimplemented(fmt::format("there is no {}", Quote(method)));
}

// Without the options, which may be secret.
void Log(const std::string& method, const Json& request, const absl::Status& status, Clock::time_point began) {
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

absl::StatusOr<Json> Respond(Parts& parts, const std::string& default_plugin, const std::string& method,
                             const std::string& body, Clock::time_point until) {
  if (method == "/Plugin.Activate") return Json{{"Implements", {"VolumeDriver"}}};
  if (method == "/VolumeDriver.Capabilities") return Capabilities();
  const Clock::time_point began = Clock::now();
  Json json = body.empty() ? Json::object() : Json::parse(body, nullptr, false);
  if (!json.is_object()) return InvalidArgument("the request is no JSON object");
  Request request(parts, default_plugin, json, until);
  absl::StatusOr<Json> answer = AnswerTo(method, request);
  Log(method, json, answer.status(), began);
  if (answer.ok()) (*answer)["Err"] = "";
  return answer;
}

}  // namespace

DockerVolumeDriver::DockerVolumeDriver(Parts& parts, std::string default_plugin, CallRecorder* recorder)
    : parts_(parts), default_plugin_(std::move(default_plugin)), recorder_(recorder) {}

std::string DockerVolumeDriver::Handle(const std::string& method, const std::string& body, Clock::time_point until) {
  const Clock::time_point began = Clock::now();
  const std::string_view name = std::string_view(method).substr(1);  // "VolumeDriver.Mount"
  if (recorder_ != nullptr) recorder_->Begin(name);
  absl::StatusCode code = absl::StatusCode::kInternal;  // of an exception
  const absl::Cleanup end = [&] {
    if (recorder_ != nullptr) recorder_->End(name, code, Clock::now() - began);
  };
  const absl::StatusOr<Json> answer = Respond(parts_, default_plugin_, method, body, until);
  code = answer.status().code();
  return TextOf(answer.ok() ? *answer : Json{{"Err", Message(answer.status())}});
}

}  // namespace mooring::manager
