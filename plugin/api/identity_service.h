// csi.v1.Identity: name, capabilities and readiness of the plugin. Answers before the plugin is ready, too.
#ifndef MOORING_PLUGIN_API_IDENTITY_SERVICE_H_
#define MOORING_PLUGIN_API_IDENTITY_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "csi.grpc.pb.h"
#include "plugin/api/readiness.h"
#include "plugin/api/rpc.h"

namespace mooring {

class IdentityService final : public csi::v1::Identity::Service {
 public:
  struct Settings {
    std::string driver_name;
    bool serves_controller = true;
    bool grows = true;          // at least one pool has volumes that grow
    bool has_snapshots = true;  // with a controller, snapshot groups and snapshot metadata are served, too
  };

  // `readiness`, `mounter_health` and `rpc` outlive the service. Probe returns an error of `mounter_health`.
  IdentityService(Settings settings, const Readiness& readiness, std::function<absl::Status()> mounter_health, Rpc& rpc)
      : settings_(std::move(settings)), readiness_(readiness), mounter_health_(std::move(mounter_health)), rpc_(rpc) {}

  grpc::Status GetPluginInfo(grpc::ServerContext* context, const csi::v1::GetPluginInfoRequest* request,
                             csi::v1::GetPluginInfoResponse* response) override {
    return rpc_.Serve(
        context, *request, response, [this](const Call&) { return Info(); }, Rpc::When::kAlways);
  }
  grpc::Status GetPluginCapabilities(grpc::ServerContext* context, const csi::v1::GetPluginCapabilitiesRequest* request,
                                     csi::v1::GetPluginCapabilitiesResponse* response) override {
    return rpc_.Serve(
        context, *request, response, [this](const Call&) { return Capabilities(); }, Rpc::When::kAlways);
  }
  grpc::Status Probe(grpc::ServerContext* context, const csi::v1::ProbeRequest* request,
                     csi::v1::ProbeResponse* response) override {
    return rpc_.Serve(
        context, *request, response, [this](const Call&) { return Ready(); }, Rpc::When::kAlways);
  }

 private:
  absl::StatusOr<csi::v1::GetPluginInfoResponse> Info() const;
  absl::StatusOr<csi::v1::GetPluginCapabilitiesResponse> Capabilities() const;
  absl::StatusOr<csi::v1::ProbeResponse> Ready() const;

  const Settings settings_;
  const Readiness& readiness_;
  const std::function<absl::Status()> mounter_health_;
  Rpc& rpc_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_API_IDENTITY_SERVICE_H_
