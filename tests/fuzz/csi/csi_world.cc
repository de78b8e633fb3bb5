#include "tests/fuzz/csi/csi_world.h"

#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <cerrno>

#include "plugin/model/volume_tuning.h"
#include "rpc/redact.h"
#include "tests/fuzz/csi/fake_pool.h"
#include "tests/fuzz/fuzz.h"

namespace mooring::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;
using google::protobuf::Reflection;
using testing::FakeKernel;

constexpr char kNode[] = "n1";

Pools TwoPools(testing::FakeMounter& mounter) {
  std::vector<Pool> pools;
  for (const std::string& name : {std::string(kDefaultPool), std::string("other")}) {
    pools.push_back({name, BackendKind::kImage, std::make_unique<FakePool>("/pools/" + name, mounter)});
  }
  return Pools(std::move(pools));
}

NodeIdentity Identity() {
  NodeIdentity identity;
  identity.node_id = kNode;
  identity.mount_roots = {"/csi"};
  return identity;
}

void CheckNoSecret(const ProtoMessage& request, const std::string& error) {
  const std::unique_ptr<ProtoMessage> rest(request.New());
  rest->CopyFrom(request);
  const FieldDescriptor* field = rest->GetDescriptor()->FindFieldByName("secrets");
  if (field != nullptr) rest->GetReflection()->ClearField(rest.get(), field);
  if (HasSecret(rest->SerializeAsString())) return;
  Require(!HasSecret(error), "no error contains a secret", error);
  Require(!HasSecret(Redacted(request)), "no log line contains a secret", Redacted(request));
}

// Times and the order of maps may differ.
bool IsSame(const ProtoMessage& one, const ProtoMessage& other) {
  return google::protobuf::util::MessageDifferencer::Equals(one, other);
}

}  // namespace

CsiWorld::CsiWorld()
    : pools_(TwoPools(mounter_)),
      catalog_(records_.catalog(), records_.snapshots(), pools_, locks_, mounter_,
               {.node_id = kNode, .topology = {{"topology.mooring.csi/node", kNode}}, .max_volumes = 3}),
      snapshots_(records_.snapshots(), catalog_, pools_, locks_, mounter_),
      node_volumes_(mounter_, catalog_, records_.node(), locks_),
      ephemeral_(catalog_, records_.catalog(), node_volumes_, locks_),
      rpc_(readiness_),
      identity_(
          {.driver_name = "mooring.csi"}, readiness_, [] { return absl::OkStatus(); }, rpc_),
      controller_(catalog_, snapshots_, node_volumes_, {}, rpc_),
      groups_(snapshots_, rpc_),
      node_(rpc_, node_volumes_, ephemeral_, Identity()) {
  mounter_.With([](FakeKernel& kernel) {
    for (const char* path : {"/csi/staging/a", "/csi/staging/b", "/csi/pods/p", "/etc"}) kernel.AddDirectory(path);
    kernel.AddForeignMount("/csi/foreign", "nfs");
  });
  readiness_.Set(absl::OkStatus());
  state_ = State();
}

std::string CsiWorld::State() {
  std::string text = mounter_.Describe();
  std::vector<VolumeRecord> volumes = *records_.catalog().ListUnfinished();
  const std::vector<VolumeRecord> ephemeral = *records_.catalog().ListEphemeral();
  volumes.insert(volumes.end(), ephemeral.begin(), ephemeral.end());
  const std::vector<ListedVolume> listed = *records_.catalog().ListReady(0, 1000);
  for (const ListedVolume& one : listed) volumes.push_back(one.volume);
  for (const VolumeRecord& one : volumes) {
    text += fmt::format("volume {} {} {} {} {} {} {} {}\n", one.id, one.name, StateText(one.state), one.bytes,
                        one.fs_type, one.pool, ToText(one.tuning), one.asked_bytes);
    const std::vector<PublicationRecord> publications = *records_.catalog().Publications(one.id);
    for (const PublicationRecord& to : publications) {
      text += fmt::format("publication {} {} {} {}\n", to.node_id, to.access_type, to.capability, to.read_only);
    }
  }
  const std::vector<std::string> snapshots = *records_.snapshots().AllIds();
  for (const std::string& id : snapshots) {
    const SnapshotRecord one = **records_.snapshots().FindById(id);
    text += fmt::format("snapshot {} {} {} {}\n", one.id, one.name, one.group_id, StateText(one.state));
  }
  const std::vector<VolumeUse> uses = *records_.node().All();
  for (const VolumeUse& use : uses) {
    text += fmt::format("use {} {} {} {} {} [{}] [{}] {}\n", use.path, use.volume_id, static_cast<int>(use.role),
                        use.done, use.read_only, use.capability, use.options, use.device);
  }
  return text;
}

void CsiWorld::Replace(ProtoMessage& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  const auto replaced = [this](const std::string& text) {
    const auto found = ids_.find(text);
    return found == ids_.end() ? text : found->second;
  };
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      for (int i = 0; i < size; ++i) {
        reflection.SetRepeatedString(&message, field, i, replaced(reflection.GetRepeatedString(message, field, i)));
      }
      if (!field->is_repeated()) reflection.SetString(&message, field, replaced(reflection.GetString(message, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
      for (int i = 0; i < size; ++i) Replace(*reflection.MutableRepeatedMessage(&message, field, i));
      if (!field->is_repeated()) Replace(*reflection.MutableMessage(&message, field));
    }
  }
}

template <typename Response>
void CsiWorld::Remember(const Response& response) {
  const auto remember = [this](const std::string& kind, const std::string& id) {
    int number = 0;
    while (ids_.contains(fmt::format("@{}{}", kind, number)) && ids_[fmt::format("@{}{}", kind, number)] != id) {
      ++number;
    }
    ids_[fmt::format("@{}{}", kind, number)] = id;
  };
  if constexpr (std::is_same_v<Response, csi::v1::CreateVolumeResponse>) {
    remember("volume", response.volume().volume_id());
  } else if constexpr (std::is_same_v<Response, csi::v1::CreateSnapshotResponse>) {
    remember("snapshot", response.snapshot().snapshot_id());
  } else if constexpr (std::is_same_v<Response, csi::v1::CreateVolumeGroupSnapshotResponse>) {
    remember("group", response.group_snapshot().group_snapshot_id());
    for (const csi::v1::Snapshot& one : response.group_snapshot().snapshots()) remember("snapshot", one.snapshot_id());
  }
}

template <typename Service, typename Request, typename Response>
void CsiWorld::SendTo(Service& service,
                      grpc::Status (Service::*method)(grpc::ServerContext*, const Request*, Response*),
                      const ProtoMessage& message, bool reads) {
  const auto& request = static_cast<const Request&>(message);
  const auto send = [&](Response& response) {
    grpc::ServerContext context;
    return (service.*method)(&context, &request, &response);
  };
  const std::string before = state_;
  const bool is_failing = mounter_.HasFaults();
  Response response;
  const grpc::Status status = send(response);
  has_failed_ = is_failing && !mounter_.HasFaults();
  mounter_.ClearFaults();
  const std::string after = state_ = State();
  Show(fmt::format("{}: {} {}", MethodOf(request), static_cast<int>(status.error_code()), status.error_message()));
  const auto details = [&] {
    return fmt::format("{}\n{} {}\nbefore:\n{}\nafter:\n{}", request.DebugString(),
                       static_cast<int>(status.error_code()), status.error_message(), before, after);
  };
  const std::string method_name = MethodOf(request);
  const bool undoes = !has_failed_ || method_name == "NodeStageVolume" || method_name == "NodePublishVolume";
  if (reads || (!status.ok() && undoes))
    Require(before == after, "such a call changes nothing", before == after ? "" : details());
  if (!status.ok()) {
    const bool blames = status.error_code() == grpc::INTERNAL || status.error_code() == grpc::UNKNOWN;
    Require((!blames || has_failed_) && !status.error_message().empty(), "the error is the caller's, and says why",
            blames ? details() : "");
    CheckNoSecret(request, status.error_message());
    return;
  }
  Remember(response);
  Response again;
  const grpc::Status repeated = send(again);
  Require(repeated.ok(), "the same call again succeeds", repeated.ok() ? "" : details() + repeated.error_message());
  const bool same = State() == after;
  Require(same, "the same call again changes nothing", same ? "" : details() + State());
  Require(IsSame(response, again), "the same call again answers the same",
          response.DebugString() + again.DebugString());
}

void CsiWorld::Send(ProtoMessage& request, const std::string& failing) {
  Replace(request);
  if (!failing.empty()) mounter_.Fail(failing, ErrnoStatus(EIO, "do as the fuzzer says"));
  using Controller = csi::v1::Controller::Service;
  using Group = csi::v1::GroupController::Service;
  using Identity = csi::v1::Identity::Service;
  using Node = csi::v1::Node::Service;
  const std::string method = MethodOf(request);
  const auto to = [&](const char* name, auto& service, auto call, bool reads = false) {
    if (method == name) SendTo(service, call, request, reads);
  };
  Controller& controller = controller_;
  to("CreateVolume", controller, &Controller::CreateVolume);
  to("DeleteVolume", controller, &Controller::DeleteVolume);
  to("ControllerPublishVolume", controller, &Controller::ControllerPublishVolume);
  to("ControllerUnpublishVolume", controller, &Controller::ControllerUnpublishVolume);
  to("ValidateVolumeCapabilities", controller, &Controller::ValidateVolumeCapabilities, true);
  to("ListVolumes", controller, &Controller::ListVolumes, true);
  to("GetCapacity", controller, &Controller::GetCapacity, true);
  to("ControllerExpandVolume", controller, &Controller::ControllerExpandVolume);
  to("ControllerGetVolume", controller, &Controller::ControllerGetVolume, true);
  to("ControllerModifyVolume", controller, &Controller::ControllerModifyVolume);
  to("CreateSnapshot", controller, &Controller::CreateSnapshot);
  to("DeleteSnapshot", controller, &Controller::DeleteSnapshot);
  to("ListSnapshots", controller, &Controller::ListSnapshots, true);
  to("GetSnapshot", controller, &Controller::GetSnapshot, true);
  Group& groups = groups_;
  to("CreateVolumeGroupSnapshot", groups, &Group::CreateVolumeGroupSnapshot);
  to("DeleteVolumeGroupSnapshot", groups, &Group::DeleteVolumeGroupSnapshot);
  to("GetVolumeGroupSnapshot", groups, &Group::GetVolumeGroupSnapshot, true);
  Node& node = node_;
  to("NodeStageVolume", node, &Node::NodeStageVolume);
  to("NodeUnstageVolume", node, &Node::NodeUnstageVolume);
  to("NodePublishVolume", node, &Node::NodePublishVolume);
  to("NodeUnpublishVolume", node, &Node::NodeUnpublishVolume);
  to("NodeGetVolumeStats", node, &Node::NodeGetVolumeStats, true);
  to("NodeExpandVolume", node, &Node::NodeExpandVolume);
  to("NodeGetInfo", node, &Node::NodeGetInfo, true);
  Identity& identity = identity_;
  to("GetPluginInfo", identity, &Identity::GetPluginInfo, true);
  to("Probe", identity, &Identity::Probe, true);
}

}  // namespace mooring::fuzz
