// A test client of the manager's API. Each call has a deadline, and returns errors as absl::Status.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager.grpc.pb.h"
#include "rpc/status.h"

namespace mooring::testing {

namespace v1 = ::mooring::manager::v1;

v1::VolumeKey Key(const std::string& id);
v1::AttachRequest RequestFor(const std::string& id, const std::string& allocation, const std::string& path);
// Runs a program with this command line.
v1::PluginRun RunOf(const std::vector<std::string>& command);

class ManagerClient {
 public:
  explicit ManagerClient(const std::string& socket);

  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }
  v1::Manager::Stub& stub() { return *stub_; }

  // A call with one answer: Ask(&Stub::ListPlugins, request).
  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(grpc::Status (v1::Manager::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                         Response*),
                               const Request& request) {
    grpc::ClientContext context;
    Prepare(context);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  absl::StatusOr<v1::PluginStatus> RunPlugin(const std::string& name,
                                             const v1::PluginRun& run);  // waits for its health
  absl::StatusOr<v1::PluginStatus> RunPlugin(const std::string& name, const std::vector<std::string>& command) {
    return RunPlugin(name, RunOf(command));
  }
  absl::Status StopPlugin(const std::string& name);
  absl::StatusOr<v1::PluginStatus> Plugin(const std::string& name);

  absl::StatusOr<v1::Volume> Create(const v1::Volume& volume);
  absl::Status Delete(const std::string& id);
  absl::StatusOr<v1::GetVolumeResponse> Get(const std::string& id);
  absl::StatusOr<std::vector<v1::Volume>> Volumes();
  std::vector<v1::Claim> Claims();

  absl::StatusOr<v1::Attachment> Attach(const v1::AttachRequest& request, std::vector<std::string>* steps = nullptr);
  absl::StatusOr<v1::Attachment> Attach(const std::string& id, const std::string& allocation, const std::string& path) {
    return Attach(RequestFor(id, allocation, path));
  }
  absl::Status Detach(const std::string& allocation, const std::string& request);
  std::vector<v1::Attachment> Attachments();

 private:
  void Prepare(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + deadline_);
  }

  std::chrono::milliseconds deadline_ = std::chrono::seconds(60);
  std::unique_ptr<v1::Manager::Stub> stub_;
};

}  // namespace mooring::testing
