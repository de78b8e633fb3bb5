#include "tests/fuzz/manager/manager_world.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"
#include "rpc/served_call.h"
#include "tests/fuzz/fuzz.h"

namespace mooring::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;
using Json = nlohmann::json;
using namespace manager;  // NOLINT(google-build-using-namespace)

constexpr char kHost[] = "host-1";

Clock::time_point Soon() { return Clock::now() + std::chrono::seconds(20); }

// The manager's directories are real. All inputs share them, because a mount leaves only empty ones.
// tests/fuzz/run removes it.
const std::string& Directory() {
  static const std::string path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "mooring-manager.XXXXXX").string();
    Require(::mkdtemp(name.data()) != nullptr, "a directory can be made", name);
    return name;
  }();
  return path;
}

// Says at once that a plugin is not there, instead of waiting for it.
class PluginsWithoutWaiting final : public PluginDirectory {
 public:
  explicit PluginsWithoutWaiting(PluginDirectory& plugins) : plugins_(plugins) {}

  absl::StatusOr<ReadyPlugin> WaitForNode(const std::string& plugin, Clock::time_point until) override {
    MOORING_RETURN_IF_ERROR(Check(plugin, false));
    return plugins_.WaitForNode(plugin, until);
  }
  absl::StatusOr<ReadyPlugin> PickController(const ControllerFor& call, Clock::time_point until) override {
    MOORING_RETURN_IF_ERROR(Check(call.plugin, true));
    return plugins_.PickController(call, until);
  }
  absl::StatusOr<PluginStatus> Find(const std::string& plugin) override { return plugins_.Find(plugin); }
  std::vector<PluginStatus> List() override { return plugins_.List(); }

 private:
  absl::Status Check(const std::string& plugin, bool controller) {
    const auto found = plugins_.Find(plugin);
    const bool has = found.ok() && (!controller || found->controllers.healthy > 0);
    return has ? absl::OkStatus() : FailedPrecondition("plugin {} is not there", Quote(plugin));
  }

  PluginDirectory& plugins_;
};

std::string Text(const ProtoMessage& message, const char* name) { return FieldText(message, name); }

bool Flag(const ProtoMessage& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  return field != nullptr && message.GetReflection()->GetBool(message, field);
}

std::map<std::string, std::string> OptionsOf(const ProtoMessage& request) {
  std::map<std::string, std::string> options;
  const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName("options");
  const auto& reflection = *request.GetReflection();
  for (int i = 0; i < reflection.FieldSize(request, field); ++i) {
    const ProtoMessage& entry = reflection.GetRepeatedMessage(request, field, i);
    options[Text(entry, "key")] = Text(entry, "value");
  }
  return options;
}

std::string BodyOf(const ProtoMessage& request) {
  if (std::string body = Text(request, "body"); !body.empty()) return body;
  Json json = {{"Name", Text(request, "name")}};
  if (const std::string id = Text(request, "id"); !id.empty()) json["ID"] = id;
  if (const auto options = OptionsOf(request); !options.empty()) json["Opts"] = options;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// As ParseDockerOptions compares keys.
std::string Plain(std::string key) {
  std::erase_if(key, [](char c) { return c == '-' || c == '_'; });
  std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
  return key;
}

// The parts of a body that are no secret. Mount flags may be one.
std::string ShownPartOf(const std::string& body) {
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("Opts") || !json["Opts"].is_object()) return body;
  for (auto& [key, value] : json["Opts"].items()) {
    if (Plain(key).starts_with("secret") || Plain(key) == "mountflags") value = "";
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool ReadsAFile(const std::string& body) { return Plain(body).find("secretsfile") != std::string::npos; }

// Clears maps `secrets` and lists `flags` (CSI 1.12: both may be secret).
void ClearSecrets(ProtoMessage& message) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->name() == "secrets" || field->name() == "flags") {
      reflection.ClearField(&message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
      for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
        ClearSecrets(*reflection.MutableRepeatedMessage(&message, field, i));
      }
      if (!field->is_repeated()) ClearSecrets(*reflection.MutableMessage(&message, field));
    }
  }
}

bool IsDocker(const ProtoMessage& request) { return request.GetDescriptor()->name() == "DockerRequest"; }

std::string ShownPartOf(const ProtoMessage& request) {
  if (IsDocker(request)) return Text(request, "method") + ShownPartOf(BodyOf(request));
  const std::unique_ptr<ProtoMessage> rest(request.New());
  rest->CopyFrom(request);
  ClearSecrets(*rest);
  return rest->SerializeAsString();
}

// A stored record without its revisions, which each commit changes. Another value: as it is.
template <typename Message>
bool Describe(const KeyValue& stored, std::string_view part, std::string& text) {
  Message message;
  if (stored.key.find(part) == std::string::npos || !message.ParseFromString(stored.value)) return false;
  for (const char* name : {"create_revision", "modify_revision"}) {
    const FieldDescriptor* field = Message::descriptor()->FindFieldByName(name);
    if (field != nullptr) message.GetReflection()->ClearField(&message, field);
  }
  text += message.ShortDebugString();
  return true;
}

std::string Described(const KeyValue& stored) {
  std::string text;
  if (Describe<v1::Volume>(stored, "/volumes/", text) || Describe<v1::Claim>(stored, "/claims/", text) ||
      Describe<v1::Attachment>(stored, "/mounts/", text)) {
    return text;
  }
  return Quote(stored.value, 4000);
}

std::string NameOf(const ProtoMessage& request) {
  return IsDocker(request) ? "/VolumeDriver." + Text(request, "method") : MethodOf(request);
}

bool OnlyReads(const std::string& name) {
  return name.starts_with("List") || name.starts_with("Get") || name == "/VolumeDriver.Get" ||
         name == "/VolumeDriver.List" || name == "/VolumeDriver.Path" || name == "/VolumeDriver.Capabilities";
}

}  // namespace

ManagerWorld::ManagerWorld()
    : plugins_(std::make_unique<PluginsWithoutWaiting>(known_)),
      hosts_(kHost),
      plugin_(std::make_shared<testing::FakeCsiPlugin>()) {
  testing::FakeCsiFeatures node_only;
  node_only.name = "other.csi";
  node_only.controller = node_only.stages = false;
  const auto other = std::make_shared<testing::FakeCsiPlugin>(node_only);
  for (const auto& plugin : {plugin_, other}) {
    plugin->volumes().MirrorInto(kernel_);
    plugin->volumes().Add("ext-1");
    known_.Add(plugin);
  }
  kernel_.With([](testing::FakeKernel& kernel) {
    for (const char* path : {"/mnt", "/mnt/a", "/mnt/b", "/etc"}) kernel.AddDirectory(path);
    for (const char* name : {"db", "web", "default"}) kernel.AddDirectory(Directory() + "/docker/" + name);
  });
  const std::string root = Directory() + "/mounts";
  std::filesystem::create_directory(root);
  journal_ = *AttachmentJournal::Open(store_, kHost);
  volume_manager_ = std::make_unique<VolumeManager>(
      *plugins_, kernel_, *journal_, events_, VolumeManager::Settings{.root = root, .boot = "boot-1", .retry = {}});
  snapshots_ = std::make_unique<Snapshots>(store_, *plugins_, hosts_, locks_, events_, work_, RetryPolicy());
  volumes_ = std::make_unique<Volumes>(store_, *plugins_, hosts_, *volume_manager_, *snapshots_, locks_, events_, work_,
                                       RetryPolicy());
  claims_ = std::make_unique<Claims>(store_, *plugins_, hosts_, locks_, events_, work_, Claims::Settings{.retry = {}});
  Attachments::Settings settings = {.host = kHost};
  settings.claim_patience = {};
  settings.first_retry = settings.longest_retry = std::chrono::hours(1);
  attachments_ = std::make_unique<Attachments>(*journal_, *claims_, *volume_manager_, events_, work_, settings);
  docker_ = std::make_unique<DockerVolumeDriver>(
      DockerVolumeDriver::Collaborators{.plugins = *plugins_,
                                        .volumes = *volumes_,
                                        .attachments = *attachments_,
                                        .journal = *journal_,
                                        .store = store_,
                                        .state = state_},
      DockerVolumeDriver::Settings{
          .host = kHost, .state_dir = Directory(), .boot = "boot-1", .default_plugin = "fake.csi"});
  now_ = State();
}

std::string ManagerWorld::State() {
  std::string text = kernel_.Describe();
  const auto listing = *state_.List("");
  for (const KeyValue& value : listing.values) text += fmt::format("{} {}\n", value.key, Described(value));
  for (const std::string& id : plugin_->volumes().Ids()) {
    const testing::FakeCsiVolume volume = *plugin_->volumes().Find(id);
    text += fmt::format("volume {} {} {}", id, volume.bytes, fmt::join(volume.attached, ","));
    for (const auto& [path, capability] : volume.staged) text += fmt::format(" staged {} {}", path, capability);
    for (const auto& [path, published] : volume.published) text += fmt::format(" at {} {}", path, published.read_only);
    text += '\n';
  }
  return text;
}

ManagerWorld::Answer ManagerWorld::AskDocker(const ProtoMessage& request) {
  const std::string method = Text(request, "method");
  const std::string path = method == "Activate" ? "/Plugin.Activate" : "/VolumeDriver." + method;
  const std::string body = BodyOf(request);
  if (ReadsAFile(body)) return {};
  Answer answer;
  answer.text = docker_->Handle(path, body, {.until = Soon(), .is_abandoned = nullptr});
  Require(IsUtf8(answer.text), "an answer to Docker is UTF-8", answer.text);
  const Json json = Json::parse(answer.text, nullptr, false);
  Require(json.is_object(), "an answer to Docker is a JSON object", answer.text);
  if (method == "Activate") return answer;
  if (!json.contains("Err")) {
    Require(method == "Capabilities", "an answer to Docker has Err", answer.text);
    return answer;
  }
  Require(json["Err"].is_string(), "Err is a text", answer.text);
  if (const std::string error = json["Err"]; !error.empty()) answer.status = FailedPrecondition("{}", error);
  return answer;
}

template <typename Request, typename Response, typename Work>
ManagerWorld::Answer ManagerWorld::AskApi(const ProtoMessage& message, Work work) {
  grpc::ServerContext context;
  Response response;
  const auto& request = static_cast<const Request&>(message);
  const grpc::Status status = calls_.Serve(&context, request, &response, Length::kShort, [&](const ApiCall& call) {
    return work(request, ApiCall{.until = Soon(), .is_over = call.is_over});
  });
  return {absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()),
          status.ok() ? response.SerializeAsString() : ""};
}

ManagerWorld::Answer ManagerWorld::Ask(const ProtoMessage& request) {
  if (IsDocker(request)) return AskDocker(request);
  VolumeHandlers volumes = {*volumes_, *claims_, *journal_, store_, state_, kHost};
  SnapshotHandlers snapshots = {*snapshots_};
  ClaimHandlers claims = {*claims_, *attachments_, *journal_, store_, state_, kHost};
  AttachHandlers attachments = {*attachments_, *journal_, store_};
  const std::string name = MethodOf(request);
#define MOORING_ASK(call, group)                                                                         \
  if (name == #call) {                                                                                   \
    return AskApi<v1::call##Request, v1::call##Response>(request, [&](const auto& q, const ApiCall& c) { \
      if constexpr (requires { group.call(q, c); }) {                                                    \
        return group.call(q, c);                                                                         \
      } else {                                                                                           \
        return group.call(q);                                                                            \
      }                                                                                                  \
    });                                                                                                  \
  }
  MOORING_ASK(CreateVolume, volumes)
  MOORING_ASK(RegisterVolume, volumes)
  MOORING_ASK(UpdateVolume, volumes)
  MOORING_ASK(DeleteVolume, volumes)
  MOORING_ASK(ExpandVolume, volumes)
  MOORING_ASK(GetVolume, volumes)
  MOORING_ASK(ListVolumes, volumes)
  MOORING_ASK(CreateSnapshot, snapshots)
  MOORING_ASK(DeleteSnapshot, snapshots)
  MOORING_ASK(ListSnapshots, snapshots)
  MOORING_ASK(ClaimVolume, claims)
  MOORING_ASK(ReleaseVolume, claims)
  MOORING_ASK(ListClaims, claims)
  MOORING_ASK(AllocationGone, claims)
  MOORING_ASK(ListAttachments, attachments)
#undef MOORING_ASK
#define MOORING_STREAM(call, reply)                                                   \
  if (name == #call) {                                                                \
    return AskApi<v1::call##Request, v1::reply>(                                      \
        request, [&](const auto& q, const ApiCall& c) -> absl::StatusOr<v1::reply> {  \
          v1::reply last;                                                             \
          MOORING_RETURN_IF_ERROR(attachments.call(q, c, [&](const v1::reply& sent) { \
            last = sent;                                                              \
            return true;                                                              \
          }));                                                                        \
          return last;                                                                \
        });                                                                           \
  }
  MOORING_STREAM(Attach, AttachReply)
  MOORING_STREAM(Detach, DetachReply)
#undef MOORING_STREAM
  return {Unimplemented("no such request"), ""};
}

void ManagerWorld::CheckAnswer(const ProtoMessage& request, const Answer& answer) {
  const std::string error = Message(answer.status);
  Require(answer.status.ok() || !error.empty(), "an error has a message");
  Require(IsUtf8(error), "an error is UTF-8", error);
  knows_secret_ = knows_secret_ || HasSecret(ShownPartOf(request));
  if (knows_secret_) return;
  Require(!HasSecret(error) && !HasSecret(answer.text), "no answer contains a secret", error + answer.text);
  const auto events = events_.Next(1, Clock::now());
  if (!events.ok()) return;
  for (const Event& event : *events) Require(!HasSecret(event.text), "no event contains a secret", event.text);
}

void ManagerWorld::Send(const ProtoMessage& request, const std::string& failing) {
  if (!failing.empty()) plugin_->Fail(failing, Internal("as the fuzzer says"));
  const std::string before = now_;
  const std::string name = NameOf(request);
  const Answer answer = Ask(request);
  plugin_->ClearFaults();
  now_ = State();
  Show(fmt::format("{} {}: {}", name, IsDocker(request) ? BodyOf(request) : "",
                   answer.status.ok() ? "ok" : answer.status.ToString()));
  CheckAnswer(request, answer);
  failed_before_ = failed_before_ || !failing.empty();
  const auto details = [&] {
    return fmt::format("{}\n{}\n{}\nbefore:\n{}\nafter:\n{}", name, request.DebugString(), answer.status.ToString(),
                       before, now_);
  };
  const auto require_same = [&](const char* invariant) {
    if (before != now_) Require(false, invariant, details());
  };
  if (OnlyReads(name)) require_same("a request that reads changes nothing");
  if (!answer.status.ok()) {
    if (failed_before_) return;
    require_same("a refused request changes nothing");
    const bool blames = absl::IsInternal(answer.status) || absl::IsUnknown(answer.status);
    Require(!blames, "the error is the caller's", blames ? details() : "");
    return;
  }
  if (Flag(request, "must_exist") || name == "UpdateVolume") return;
  const Answer again = Ask(request);
  Require(again.status.ok(), "the same request again succeeds",
          again.status.ok() ? "" : details() + Message(again.status));
  const std::string after = State();
  Require(after == now_, "the same request again changes nothing", after == now_ ? "" : details() + "again:\n" + after);
}

void ManagerWorld::TakeDown() {
  const auto require_ok = [&](const absl::Status& status, const char* invariant) {
    Require(status.ok(), invariant, status.ok() ? "" : status.ToString() + "\n" + State());
  };
  for (const AttachmentRecord& record : journal_->All()) {
    require_ok(
        attachments_->Detach(record.allocation, record.request, Attachments::Failure::kChangesNothing, nullptr, Soon()),
        "all can be detached");
  }
  Require(claims_->Resume().ok() && claims_->WaitUntilTried(Soon()), "claims are tried again");
  const auto held = *store_.ListClaims();
  for (const Claim& claim : held) {
    require_ok(attachments_->Release(claim.volume, claim.mode, claim.allocation, Soon()), "all can be released");
  }
  const auto volumes = *volumes_->List("");
  for (const Volume& volume : volumes) {
    require_ok(volume.created_here ? volumes_->Delete(volume.key, Soon()) : volumes_->Deregister(volume.key, Soon()),
               "all can be deleted");
  }
  Require(journal_->All().empty() && store_.ListClaims()->empty() && volumes_->List("")->empty(),
          "no record is left after all", State());
  Require(plugin_->volumes().published_count() == 0 && plugin_->volumes().staged_count() == 0,
          "nothing is mounted after all", State());
  const auto violations = plugin_->Violations();
  Require(violations.empty(), "the plugin gets calls in CSI's order", fmt::format("{}", fmt::join(violations, "\n")));
}

}  // namespace mooring::fuzz
