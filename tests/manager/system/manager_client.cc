#include "tests/manager/system/manager_client.h"

#include "base/socket_path.h"

namespace mooring::testing {
namespace {

// A new channel each time: gRPC would reuse the connection to an earlier manager.
std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(GrpcTarget(socket), grpc::InsecureChannelCredentials(), arguments);
}

// The last answer of a stream; the earlier ones are steps.
template <typename Reply>
absl::StatusOr<Reply> LastOf(grpc::ClientReader<Reply>& reader, std::vector<std::string>* steps) {
  Reply reply, last;
  while (reader.Read(&reply)) {
    if (reply.has_step() && steps != nullptr) steps->push_back(reply.step().text());
    last = reply;
  }
  const grpc::Status status = reader.Finish();
  if (!status.ok()) return FromGrpc(status);
  return last;
}

}  // namespace

v1::VolumeKey Key(const std::string& id) {
  v1::VolumeKey key;
  key.set_id(id);
  return key;
}

v1::AttachRequest RequestFor(const std::string& id, const std::string& allocation, const std::string& path) {
  v1::AttachRequest request;
  *request.mutable_volume() = Key(id);
  request.set_allocation(allocation);
  request.set_attach_path(path);
  return request;
}

v1::PluginRun RunOf(const std::vector<std::string>& command) {
  v1::PluginRun run;
  for (const std::string& word : command) run.add_command(word);
  return run;
}

ManagerClient::ManagerClient(const std::string& socket) : stub_(v1::Manager::NewStub(Connect(socket))) {}

absl::StatusOr<v1::PluginStatus> ManagerClient::RunPlugin(const std::string& name, const v1::PluginRun& run) {
  v1::RunPluginRequest request;
  request.set_name(name);
  request.set_wait(true);
  *request.mutable_run() = run;
  grpc::ClientContext context;
  Prepare(context);
  const auto reader = stub_->RunPlugin(&context, request);
  auto last = LastOf(*reader, nullptr);
  if (!last.ok()) return last.status();
  return last->done();
}

absl::Status ManagerClient::StopPlugin(const std::string& name) {
  v1::StopPluginRequest request;
  request.set_name(name);
  return Ask(&v1::Manager::Stub::StopPlugin, request).status();
}

absl::StatusOr<v1::PluginStatus> ManagerClient::Plugin(const std::string& name) {
  v1::ListPluginsRequest request;
  request.set_name(name);
  auto response = Ask(&v1::Manager::Stub::ListPlugins, request);
  if (!response.ok()) return response.status();
  return response->plugins(0);
}

absl::StatusOr<v1::Volume> ManagerClient::Create(const v1::Volume& volume) {
  v1::CreateVolumeRequest request;
  *request.mutable_volume() = volume;
  auto response = Ask(&v1::Manager::Stub::CreateVolume, request);
  if (!response.ok()) return response.status();
  return response->volume();
}

absl::Status ManagerClient::Delete(const std::string& id) {
  v1::DeleteVolumeRequest request;
  *request.mutable_key() = Key(id);
  return Ask(&v1::Manager::Stub::DeleteVolume, request).status();
}

absl::StatusOr<v1::GetVolumeResponse> ManagerClient::Get(const std::string& id) {
  v1::GetVolumeRequest request;
  *request.mutable_key() = Key(id);
  return Ask(&v1::Manager::Stub::GetVolume, request);
}

absl::StatusOr<std::vector<v1::Volume>> ManagerClient::Volumes() {
  v1::ListVolumesRequest request;
  request.set_namespace_("*");
  auto response = Ask(&v1::Manager::Stub::ListVolumes, request);
  if (!response.ok()) return response.status();
  return std::vector<v1::Volume>(response->volumes().begin(), response->volumes().end());
}

std::vector<v1::Claim> ManagerClient::Claims() {
  const auto response = Ask(&v1::Manager::Stub::ListClaims, v1::ListClaimsRequest());
  if (!response.ok()) return {};
  return {response->claims().begin(), response->claims().end()};
}

absl::StatusOr<v1::Attachment> ManagerClient::Attach(const v1::AttachRequest& asked, std::vector<std::string>* steps) {
  v1::AttachRequest request = asked;
  request.set_steps(steps != nullptr);
  grpc::ClientContext context;
  Prepare(context);
  const auto reader = stub_->Attach(&context, request);
  auto last = LastOf(*reader, steps);
  if (!last.ok()) return last.status();
  return last->done();
}

absl::Status ManagerClient::Detach(const std::string& allocation, const std::string& name) {
  v1::DetachRequest request;
  request.set_allocation(allocation);
  request.set_request(name);
  grpc::ClientContext context;
  Prepare(context);
  const auto reader = stub_->Detach(&context, request);
  return LastOf(*reader, nullptr).status();
}

std::vector<v1::Attachment> ManagerClient::Attachments() {
  const auto response = Ask(&v1::Manager::Stub::ListAttachments, v1::ListAttachmentsRequest());
  if (!response.ok()) return {};
  return {response->attachments().begin(), response->attachments().end()};
}

}  // namespace mooring::testing
