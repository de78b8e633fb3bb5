#include "tests/fakes/fake_csi_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::testing {
namespace {

using google::protobuf::Message;
using NodeRpc = csi::v1::NodeServiceCapability::RPC;
using ControllerRpc = csi::v1::ControllerServiceCapability::RPC;

std::string VolumeOf(const Message& request) {
  for (const char* const name : {"volume_id", "source_volume_id", "name"}) {
    const auto* const field = request.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) continue;
    const std::string value = request.GetReflection()->GetString(request, field);
    if (!value.empty()) return value;
  }
  return "";
}

bool ComesByItself(const std::string& method) {
  return method == "Probe" || method == "GetPluginInfo" || method == "NodeGetInfo" || method.ends_with("Capabilities");
}

bool MayOverlap(const std::string& method) {
  return method == "NodeGetVolumeStats" || method.starts_with("List") || method.starts_with("Validate");
}

void Answer(const FakeCsiFeatures& features, csi::v1::GetPluginInfoResponse& response) {
  response.set_name(features.name);
  response.set_vendor_version(features.version);
}

void Answer(const FakeCsiFeatures& features, csi::v1::GetPluginCapabilitiesResponse& response) {
  using Service = csi::v1::PluginCapability::Service;
  if (features.controller) response.add_capabilities()->mutable_service()->set_type(Service::CONTROLLER_SERVICE);
  if (!features.topology.empty()) {
    response.add_capabilities()->mutable_service()->set_type(Service::VOLUME_ACCESSIBILITY_CONSTRAINTS);
  }
  if (features.expands) {
    response.add_capabilities()->mutable_volume_expansion()->set_type(
        csi::v1::PluginCapability::VolumeExpansion::ONLINE);
  }
}

void Answer(const FakeCsiFeatures& features, csi::v1::ProbeResponse& response) {
  if (features.says_ready) response.mutable_ready()->set_value(features.ready);
}

void Answer(const FakeCsiFeatures& features, csi::v1::NodeGetInfoResponse& response) {
  response.set_node_id(features.node_id);
  response.set_max_volumes_per_node(features.max_volumes);
  for (const auto& [key, value] : features.topology) {
    (*response.mutable_accessible_topology()->mutable_segments())[key] = value;
  }
}

void Answer(const FakeCsiFeatures& features, csi::v1::NodeGetCapabilitiesResponse& response) {
  const auto add = [&](bool has, NodeRpc::Type type) {
    if (has) response.add_capabilities()->mutable_rpc()->set_type(type);
  };
  add(features.stages, NodeRpc::STAGE_UNSTAGE_VOLUME);
  add(true, NodeRpc::GET_VOLUME_STATS);
  add(features.node_expands, NodeRpc::EXPAND_VOLUME);
  add(features.single_writer, NodeRpc::SINGLE_NODE_MULTI_WRITER);
}

void Answer(const FakeCsiFeatures& features, csi::v1::ControllerGetCapabilitiesResponse& response) {
  const auto add = [&](bool has, ControllerRpc::Type type) {
    if (has) response.add_capabilities()->mutable_rpc()->set_type(type);
  };
  add(true, ControllerRpc::CREATE_DELETE_VOLUME);
  add(true, ControllerRpc::LIST_VOLUMES);
  add(features.attaches, ControllerRpc::PUBLISH_UNPUBLISH_VOLUME);
  add(features.snapshots, ControllerRpc::CREATE_DELETE_SNAPSHOT);
  add(features.snapshots, ControllerRpc::LIST_SNAPSHOTS);
  add(features.clones, ControllerRpc::CLONE_VOLUME);
  add(features.expands, ControllerRpc::EXPAND_VOLUME);
  add(features.single_writer, ControllerRpc::SINGLE_NODE_MULTI_WRITER);
}

// Finds the handler of a call's method.
class Dispatch {
 public:
  Dispatch(const std::string& method, const Message& request, Message& response)
      : method_(method), request_(request), response_(response) {}

  template <typename Request, typename Handler>
  Dispatch& On(Handler handler) {
    using Response = typename manager::CsiCall<Request>::Response;
    if (method_ == manager::CsiCall<Request>::kMethod) {
      outcome_ = handler(dynamic_cast<const Request&>(request_), dynamic_cast<Response&>(response_));
    }
    return *this;
  }
  template <typename Request>
  Dispatch& OnAsking(const FakeCsiFeatures& features) {
    return On<Request>([&](const Request&, auto& response) {
      Answer(features, response);
      return absl::OkStatus();
    });
  }
  absl::Status outcome() const { return outcome_; }

 private:
  const std::string& method_;
  const Message& request_;
  Message& response_;
  absl::Status outcome_ = Unimplemented("the fake plugin has no such call");
};

void AskController(FakeCsiVolumes& volumes, const FakeCsiFeatures& features, Dispatch& dispatch) {
  namespace v1 = csi::v1;
  dispatch.OnAsking<v1::ControllerGetCapabilitiesRequest>(features)
      .On<v1::CreateVolumeRequest>([&](const auto& q, auto& a) { return volumes.Create(features, q, a); })
      .On<v1::DeleteVolumeRequest>([&](const auto& q, auto&) { return volumes.Delete(q); })
      .On<v1::ControllerPublishVolumeRequest>([&](const auto& q, auto& a) { return volumes.Attach(q, a); })
      .On<v1::ControllerUnpublishVolumeRequest>([&](const auto& q, auto&) { return volumes.Detach(q); })
      .On<v1::ValidateVolumeCapabilitiesRequest>([&](const auto& q, auto& a) { return volumes.Validate(q, a); })
      .On<v1::ListVolumesRequest>([&](const auto&, auto& a) { return volumes.List(a); })
      .On<v1::ControllerExpandVolumeRequest>([&](const auto& q, auto& a) { return volumes.Expand(features, q, a); })
      .On<v1::CreateSnapshotRequest>([&](const auto& q, auto& a) { return volumes.CreateSnapshot(q, a); })
      .On<v1::DeleteSnapshotRequest>([&](const auto& q, auto&) { return volumes.DeleteSnapshot(q); })
      .On<v1::ListSnapshotsRequest>([&](const auto&, auto& a) { return volumes.ListSnapshots(a); });
}

void AskNode(FakeCsiVolumes& volumes, const FakeCsiFeatures& features, Dispatch& dispatch) {
  namespace v1 = csi::v1;
  dispatch.OnAsking<v1::NodeGetInfoRequest>(features)
      .OnAsking<v1::NodeGetCapabilitiesRequest>(features)
      .On<v1::NodeStageVolumeRequest>([&](const auto& q, auto&) { return volumes.Stage(features, q); })
      .On<v1::NodeUnstageVolumeRequest>([&](const auto& q, auto&) { return volumes.Unstage(q); })
      .On<v1::NodePublishVolumeRequest>([&](const auto& q, auto&) { return volumes.Publish(features, q); })
      .On<v1::NodeUnpublishVolumeRequest>([&](const auto& q, auto&) { return volumes.Unpublish(q); })
      .On<v1::NodeExpandVolumeRequest>([&](const auto& q, auto& a) { return volumes.NodeExpand(q, a); })
      .On<v1::NodeGetVolumeStatsRequest>([&](const auto& q, auto& a) { return volumes.Stats(q, a); });
}

absl::Status Ask(FakeCsiVolumes& volumes, const FakeCsiFeatures& features, const std::string& method,
                 const Message& request, Message& response) {
  Dispatch dispatch(method, request, response);
  dispatch.OnAsking<csi::v1::GetPluginInfoRequest>(features)
      .OnAsking<csi::v1::GetPluginCapabilitiesRequest>(features)
      .OnAsking<csi::v1::ProbeRequest>(features);
  if (features.controller) AskController(volumes, features, dispatch);
  AskNode(volumes, features, dispatch);
  return dispatch.outcome();
}

absl::Status Cancelled() { return absl::CancelledError("the channel was closed"); }

}  // namespace

FakeCsiPlugin::FakeCsiPlugin(FakeCsiFeatures features, std::shared_ptr<FakeCsiVolumes> volumes)
    : volumes_(std::move(volumes)), features_(std::move(features)) {}

FakeCsiFeatures FakeCsiPlugin::features() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return features_;
}

void FakeCsiPlugin::SetFeatures(const FakeCsiFeatures& features) {
  const std::lock_guard<std::mutex> lock(mutex_);
  features_ = features;
}

void FakeCsiPlugin::SetReady(bool ready) {
  const std::lock_guard<std::mutex> lock(mutex_);
  features_.ready = ready;
}

void FakeCsiPlugin::Fail(std::string_view method, const absl::Status& status, int nth, int times, When when) {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_.push_back({std::string(method), nth - 1, times, when, status});
}

void FakeCsiPlugin::FailAlways(std::string_view method, const absl::Status& status) { Fail(method, status, 1, -1); }

void FakeCsiPlugin::ClearFaults() {
  const std::lock_guard<std::mutex> lock(mutex_);
  faults_.clear();
  delays_.clear();
}

void FakeCsiPlugin::Delay(std::string_view method, std::chrono::milliseconds time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  delays_[std::string(method)] = time;
}

void FakeCsiPlugin::Hang(std::string_view method, const std::string& volume_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hung_.push_back({std::string(method), volume_id});
}

void FakeCsiPlugin::Release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  hung_.clear();
  changed_.notify_all();
}

void FakeCsiPlugin::Die() {
  const std::lock_guard<std::mutex> lock(mutex_);
  dead_ = true;
  changed_.notify_all();
}

void FakeCsiPlugin::Revive() {
  const std::lock_guard<std::mutex> lock(mutex_);
  dead_ = false;
}

void FakeCsiPlugin::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

std::vector<std::string> FakeCsiPlugin::Calls(std::string_view method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> calls;
  for (const Entry& entry : log_) {
    if (method == kAnyCall ? !ComesByItself(entry.method) : entry.method == method) calls.push_back(entry.Text());
  }
  return calls;
}

int FakeCsiPlugin::Count(std::string_view method) { return static_cast<int>(Calls(method).size()); }

void FakeCsiPlugin::ClearLog() {
  const std::lock_guard<std::mutex> lock(mutex_);
  log_.clear();
}

bool FakeCsiPlugin::WaitForCalls(std::string_view method, int count, std::chrono::seconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_until(lock, Clock::now() + patience, [&] {
    return std::count_if(log_.begin(), log_.end(), [&](const Entry& entry) {
             return method == kAnyCall ? !ComesByItself(entry.method) : entry.method == method;
           }) >= count;
  });
}

std::vector<std::string> FakeCsiPlugin::Violations() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return violations_;
}

void FakeCsiPlugin::Arrive(const Entry& entry) {
  log_.push_back(entry);
  changed_.notify_all();
  if (entry.volume_id.empty() || MayOverlap(entry.method)) return;
  if (++in_flight_[entry.service + " " + entry.volume_id] > 1) {
    violations_.push_back(entry.Text() + " while another call for that volume was under way");
  }
}

void FakeCsiPlugin::Leave(const Entry& entry) {
  if (entry.volume_id.empty() || MayOverlap(entry.method)) return;
  --in_flight_[entry.service + " " + entry.volume_id];
}

absl::Status FakeCsiPlugin::TakeFault(const std::string& method, When when) {
  absl::Status outcome;
  for (Fault& fault : faults_) {
    if (fault.when != when || (fault.method != kAnyCall && fault.method != method)) continue;
    if (fault.skip-- > 0 || !outcome.ok()) continue;
    // A deep copy: abseil is built without the thread sanitizer, which does not see its reference counts.
    outcome = absl::Status(fault.status.code(), mooring::Message(fault.status));
    if (fault.times > 0) --fault.times;
  }
  std::erase_if(faults_, [](const Fault& fault) { return fault.times == 0; });
  return outcome;
}

bool FakeCsiPlugin::Hangs(const Entry& entry) const {
  return std::any_of(hung_.begin(), hung_.end(), [&](const Hung& hung) {
    return (hung.method == kAnyCall || hung.method == entry.method) &&
           (hung.volume_id.empty() || hung.volume_id == entry.volume_id);
  });
}

// Waits for the delay and the hangs of the call. OK: the call may be answered.
absl::Status FakeCsiPlugin::WaitUntilServed(const Entry& entry, Clock::time_point until,
                                            const std::atomic<bool>& closed, std::unique_lock<std::mutex>& lock) {
  auto delay = delays_.find(entry.method);
  if (delay == delays_.end()) delay = delays_.find(std::string(kAnyCall));
  const Clock::time_point served_at = delay == delays_.end() ? Clock::now() : Clock::now() + delay->second;
  const auto is_over = [&] { return dead_ || closed; };
  changed_.wait_until(lock, std::min(until, served_at), is_over);
  changed_.wait_until(lock, until, [&] { return is_over() || !Hangs(entry); });
  if (closed) return Cancelled();
  if (dead_) return Unavailable("the fake plugin is dead");
  if (Hangs(entry) || served_at > until) {
    const std::string message = fmt::format("no answer in time to {} by the fake plugin", entry.method);
    return absl::DeadlineExceededError(message.c_str());
  }
  return absl::OkStatus();
}

absl::Status FakeCsiPlugin::Call(const std::string& method, const Message& request, Message& response,
                                 Clock::time_point until, const std::atomic<bool>& closed) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (closed) return Cancelled();
  if (dead_) return Unavailable("the fake plugin is dead");
  const std::size_t slash = method.rfind('/');
  Entry entry{.service = method.substr(0, slash),
              .method = method.substr(slash + 1),
              .volume_id = VolumeOf(request),
              .request = nullptr};
  std::shared_ptr<Message> copy(request.New());
  copy->CopyFrom(request);
  entry.request = std::move(copy);

  Arrive(entry);
  absl::Status status = WaitUntilServed(entry, until, closed, lock);
  if (status.ok()) status = TakeFault(entry.method, When::kBefore);
  if (status.ok()) {
    const FakeCsiFeatures features = features_;
    lock.unlock();
    status = Ask(*volumes_, features, method, request, response);
    lock.lock();
    if (status.ok()) status = TakeFault(entry.method, When::kAfter);
  }
  Leave(entry);
  return status;
}

namespace {

class FakeChannel final : public manager::CsiChannel {
 public:
  using Find = std::function<std::shared_ptr<FakeCsiPlugin>()>;
  explicit FakeChannel(Find find) : find_(std::move(find)) {}

  absl::Status Call(const std::string& method, const Message& request, Message& response,
                    manager::Clock::time_point until) override {
    if (closed_) return Cancelled();
    const std::shared_ptr<FakeCsiPlugin> plugin = find_();
    if (plugin == nullptr) return Unavailable("nobody serves the socket");
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (std::find(called_.begin(), called_.end(), plugin) == called_.end()) called_.push_back(plugin);
    }
    return plugin->Call(method, request, response, until, closed_);
  }

  void Close() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (const auto& plugin : called_) plugin->Wake();
  }

 private:
  const Find find_;
  std::atomic<bool> closed_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<FakeCsiPlugin>> called_;
};

}  // namespace

std::shared_ptr<manager::CsiChannel> ChannelTo(std::shared_ptr<FakeCsiPlugin> plugin) {
  return std::make_shared<FakeChannel>([plugin = std::move(plugin)] { return plugin; });
}

void FakeSockets::Serve(const std::string& socket_path, std::shared_ptr<FakeCsiPlugin> plugin) {
  const std::lock_guard<std::mutex> lock(table_->mutex);
  table_->plugins[socket_path] = std::move(plugin);
}

void FakeSockets::Remove(const std::string& socket_path) {
  const std::lock_guard<std::mutex> lock(table_->mutex);
  table_->plugins.erase(socket_path);
}

manager::CsiConnector FakeSockets::connector() const {
  return [table = table_](const std::string& socket_path, const std::string&) -> std::shared_ptr<manager::CsiChannel> {
    return std::make_shared<FakeChannel>([table, socket_path]() -> std::shared_ptr<FakeCsiPlugin> {
      const std::lock_guard<std::mutex> lock(table->mutex);
      const auto plugin = table->plugins.find(socket_path);
      return plugin == table->plugins.end() ? nullptr : plugin->second;
    });
  };
}

}  // namespace mooring::testing
