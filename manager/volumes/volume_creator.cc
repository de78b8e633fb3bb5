#include "manager/volumes/volume_creator.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/host.h"
#include "base/status.h"
#include "base/text/clean_text.h"
#include "base/text/quote.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/controller_call.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_records.h"
#include "rpc/redact.h"

namespace mooring::manager {
namespace {

// The name for CreateVolume: readable, in letters that every plugin accepts, and unique. A volume that is deregistered
// and created again must not get the old data, and two hosts must not get the same volume.
std::string NewName(const VolumeKey& key) {
  constexpr std::size_t kReadable = 40;
  std::string name;
  for (const char c : key.id.substr(0, kReadable)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && std::isalnum(byte) != 0;
    if (plain || !name.empty()) name += plain ? c : '-';
  }
  if (name.empty()) name = "volume";
  return name + "-" + RandomHex(8);
}

void CopyTopologies(const std::vector<Topology>& topologies,
                    google::protobuf::RepeatedPtrField<csi::v1::Topology>& messages) {
  for (const Topology& topology : topologies) {
    messages.Add()->mutable_segments()->insert(topology.segments.begin(), topology.segments.end());
  }
}

csi::v1::CreateVolumeRequest CreateRequest(const Volume& volume, const PluginTraits& traits) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(volume.name);
  if (volume.min_bytes != 0 || volume.max_bytes != 0) {
    request.mutable_capacity_range()->set_required_bytes(static_cast<std::int64_t>(volume.min_bytes));
    request.mutable_capacity_range()->set_limit_bytes(static_cast<std::int64_t>(volume.max_bytes));
  }
  for (const Capability& capability : volume.capabilities) {
    *request.add_volume_capabilities() = ToCsi(capability, volume.mount_options, traits.controller_single_writer);
  }
  request.mutable_parameters()->insert(volume.parameters.begin(), volume.parameters.end());
  volume.secrets.CopyTo(*request.mutable_secrets());
  if (!volume.snapshot_id.empty()) {
    request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(volume.snapshot_id);
  } else if (!volume.clone_id.empty()) {
    request.mutable_volume_content_source()->mutable_volume()->set_volume_id(volume.clone_id);
  }
  if (!volume.required_topologies.empty() || !volume.preferred_topologies.empty()) {
    auto& topology = *request.mutable_accessibility_requirements();
    CopyTopologies(volume.required_topologies, *topology.mutable_requisite());
    CopyTopologies(volume.preferred_topologies, *topology.mutable_preferred());
  }
  return request;
}

csi::v1::ValidateVolumeCapabilitiesRequest ValidateRequest(const Volume& volume, const PluginTraits& traits) {
  csi::v1::ValidateVolumeCapabilitiesRequest request;
  request.set_volume_id(IdForPlugin(volume));
  request.mutable_volume_context()->insert(volume.context.begin(), volume.context.end());
  request.mutable_parameters()->insert(volume.parameters.begin(), volume.parameters.end());
  volume.secrets.CopyTo(*request.mutable_secrets());
  for (const Capability& capability : volume.capabilities) {
    *request.add_volume_capabilities() = ToCsi(capability, volume.mount_options, traits.controller_single_writer);
  }
  return request;
}

// Copies the answer of CreateVolume into the record.
absl::Status Adopt(const csi::v1::Volume& answer, Volume& volume) {
  if (answer.volume_id().empty()) {
    return Internal("CreateVolume of plugin {} answered without a volume id", Quote(volume.plugin));
  }
  volume.external_id = answer.volume_id();
  volume.capacity_bytes = static_cast<std::uint64_t>(answer.capacity_bytes());
  volume.context = StringMap(answer.volume_context().begin(), answer.volume_context().end());
  volume.topologies.clear();
  for (const csi::v1::Topology& topology : answer.accessible_topology()) {
    volume.topologies.push_back({StringMap(topology.segments().begin(), topology.segments().end())});
  }
  return absl::OkStatus();
}

absl::Status CheckTraits(const Volume& volume, const PluginTraits& traits) {
  const auto cannot = [&](std::string_view what) {
    return FailedPrecondition("plugin {} {}", Quote(volume.plugin), what);
  };
  if (!traits.creates) return cannot("creates no volumes: register its volumes instead");
  if (!volume.clone_id.empty() && !traits.clones) return cannot("cannot clone volumes");
  if (!volume.snapshot_id.empty() && !traits.snapshots) return cannot("has no snapshots");
  return absl::OkStatus();
}

// The record of a volume that is new to the manager.
void Begin(Volume& volume, Volume::State state, const std::string& worker) {
  volume.state = state;
  volume.created_at = std::chrono::system_clock::now();
  volume.worker = worker;
  volume.revisions = {};
  volume.in_use.reset();
  volume.exhausted_at.reset();
}

}  // namespace

absl::StatusOr<Volume> VolumeCreator::Create(Volume volume, Clock::time_point until, const IsAbandoned& is_abandoned) {
  MOORING_RETURN_IF_ERROR(CheckVolume(volume));
  if (!volume.external_id.empty()) {
    return InvalidArgument("the plugin chooses the external id of a new volume: to use an existing one, register it");
  }
  volume.created_here = true;
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, volume.key, until));
  auto there = store_.GetVolume(volume.key);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  if (there.ok()) MOORING_RETURN_IF_ERROR(CheckSecrets(*there));
  if (!there.ok()) {
    MOORING_ASSIGN_OR_RETURN(volume, BeginCreate(std::move(volume), until, is_abandoned));
    return FinishCreate(std::move(volume), Since::kNow, until);
  }
  MOORING_RETURN_IF_ERROR(CheckSameRequest(*there, volume));
  MOORING_RETURN_IF_ERROR(CheckNotElsewhere(store_, hosts_, *there));
  if (there->state == Volume::State::kCreating && there->worker != hosts_.self()) {
    there->worker = hosts_.self();
    MOORING_ASSIGN_OR_RETURN(*there, store_.PutVolume(*there));
  }
  return there->state == Volume::State::kReady ? *std::move(there)
                                               : FinishCreate(*std::move(there), Since::kBefore, until);
}

absl::StatusOr<Volume> VolumeCreator::BeginCreate(Volume volume, Clock::time_point until,
                                                  const IsAbandoned& is_abandoned) {
  MOORING_ASSIGN_OR_RETURN(const ControllerFor creator, Creator(volume));
  MOORING_ASSIGN_OR_RETURN(const PluginTraits traits, ControllerTraits(plugins_, creator, retry_, until));
  MOORING_RETURN_IF_ERROR(CheckTraits(volume, traits));
  MOORING_RETURN_IF_ERROR(CheckAwaited(is_abandoned));
  if (volume.name.empty()) {
    volume.name = NewName(volume.key);  // unique
  } else {
    MOORING_RETURN_IF_ERROR(RefuseTwin(volume, Damaged::kRefused));
  }
  if (volume.required_topologies.empty()) volume.topologies = creator.reaches;  // until the plugin answers
  Begin(volume, Volume::State::kCreating, hosts_.self());
  return store_.PutVolume(std::move(volume));
}

// RESOURCE_EXHAUSTED says nothing about an earlier request, for which the plugin may have created the volume.
absl::StatusOr<Volume> VolumeCreator::FinishCreate(Volume volume, Since begun, Clock::time_point until) {
  auto created = CallCreate(volume, until);
  const bool is_unclear = begun == Since::kBefore && absl::IsResourceExhausted(created.status());
  if (!created.ok() && ChangedNothing(created.status()) && !is_unclear) {
    MOORING_RETURN_IF_ERROR(store_.Commit(Changes().Delete(volume)).status());
    return created.status();
  }
  if (!created.ok()) {
    return Annotate(
        created.status(),
        fmt::format("it is unknown whether volume {} exists, and its record stays in state creating: "
                    "repeat the request to continue, or delete the volume; the next start of the manager undoes it",
                    ToString(volume.key)));
  }
  created->state = Volume::State::kReady;
  created->worker.clear();
  auto ready = StoredAlone(*std::move(created), begun == Since::kNow ? Damaged::kIgnored : Damaged::kRefused);
  if (absl::IsAlreadyExists(ready.status())) {  // the volume of the plugin already has another key
    MOORING_RETURN_IF_ERROR(store_.Commit(Changes().Delete(volume)).status());
  }
  MOORING_RETURN_IF_ERROR(ready.status());
  Report(*ready, fmt::format("created with {} bytes as {}", ready->capacity_bytes, Quote(ready->external_id)));
  return ready;
}

absl::StatusOr<ControllerFor> VolumeCreator::Creator(const Volume& volume) {
  ControllerFor creator(volume);
  if (!creator.reaches.empty()) return creator;
  if (!volume.snapshot_id.empty()) {
    MOORING_ASSIGN_OR_RETURN(creator.reaches, snapshots_.TopologiesOf(volume.plugin, volume.snapshot_id));
  } else if (!volume.clone_id.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
    for (const Volume& source : volumes) {
      if (source.plugin == volume.plugin && IdForPlugin(source) == volume.clone_id) creator.reaches = source.topologies;
    }
  }
  return creator;
}

// RESOURCE_EXHAUSTED after an earlier try without an answer: that try may have created the volume.
absl::StatusOr<Volume> VolumeCreator::CallCreate(Volume volume, Clock::time_point until) {
  int tries = 0;
  const auto request = [&](const PluginTraits& traits) {
    ++tries;
    return CreateRequest(volume, traits);
  };
  const auto answer = CallController(plugins_, ControllerFor(volume), request, retry_, until);
  if (absl::IsResourceExhausted(answer.status()) && tries > 1) {
    return WithCode(absl::StatusCode::kUnavailable,
                    Annotate(answer.status(), "after an earlier try without an answer"));
  }
  MOORING_RETURN_IF_ERROR(answer.status());
  MOORING_RETURN_IF_ERROR(Adopt(answer->volume(), volume));
  return volume;
}

absl::StatusOr<Volume> VolumeCreator::Register(Volume volume, Clock::time_point until) {
  MOORING_RETURN_IF_ERROR(CheckVolume(volume));
  volume.created_here = false;
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, LockController(controller_locks_, volume.key, until));
  auto there = store_.GetVolume(volume.key);
  if (there.ok()) {
    MOORING_RETURN_IF_ERROR(CheckSameRequest(*there, volume));
    return there;
  }
  if (!absl::IsNotFound(there.status())) return there.status();
  MOORING_RETURN_IF_ERROR(Validate(volume, until));
  Begin(volume, Volume::State::kReady, "");
  MOORING_ASSIGN_OR_RETURN(Volume stored, StoredAlone(std::move(volume), Damaged::kRefused));
  Report(stored, fmt::format("registered as {}", Quote(IdForPlugin(stored))));
  return stored;
}

// A plugin without a controller, or without ValidateVolumeCapabilities, is not asked.
absl::Status VolumeCreator::Validate(const Volume& volume, Clock::time_point until) {
  MOORING_ASSIGN_OR_RETURN(const PluginStatus plugin, FindKnown(plugins_, volume.plugin));
  if (!plugin.controller_required && plugin.controllers.healthy == 0) return absl::OkStatus();
  const auto request = [&](const PluginTraits& traits) { return ValidateRequest(volume, traits); };
  const auto answer = CallController(plugins_, ControllerFor(volume), request, retry_, until);
  if (absl::IsUnimplemented(answer.status())) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(answer.status());
  if (answer->has_confirmed()) return absl::OkStatus();
  const std::string said =
      CleanText(WithoutSecretsOf(ValidateRequest(volume, PluginTraits()), answer->message(), Reader::kCaller));
  return FailedPrecondition("plugin {} does not confirm the capabilities of volume {}: {}", Quote(volume.plugin),
                            Quote(IdForPlugin(volume)), said.empty() ? "it gives no reason" : said);
}

absl::StatusOr<std::optional<Volume>> VolumeCreator::FindCreated(Volume volume, Clock::time_point until) {
  auto created = CallCreate(std::move(volume), until);
  if (ChangedNothing(created.status())) return std::nullopt;
  MOORING_RETURN_IF_ERROR(created.status());
  auto stored = StoredAlone(*std::move(created), Damaged::kRefused);
  if (absl::IsAlreadyExists(stored.status())) return std::nullopt;
  MOORING_RETURN_IF_ERROR(stored.status());
  return *std::move(stored);
}

void VolumeCreator::Report(const Volume& volume, const std::string& text) {
  events_.Add({.kind = "volume", .plugin = volume.plugin, .volume = volume.key, .text = text});
}

// The claims on two records of the same volume would not exclude each other.
absl::Status VolumeCreator::RefuseTwin(const Volume& volume, Damaged damaged) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<Volume> volumes, store_.ListVolumes());
  for (const Volume& other : volumes) {
    if (!AreSameVolume(volume, other)) continue;
    return AlreadyExists("volume {} would be the same volume of plugin {} as {}", ToString(volume.key),
                         Quote(volume.plugin), ToString(other.key));
  }
  if (damaged == Damaged::kIgnored) return absl::OkStatus();
  return Annotate(store_.CheckReadable(VolumesPrefix()),
                  fmt::format("volume {} may have a record under another name already", ToString(volume.key)));
}

// Every commit that gives a volume its external id also puts the key NewVolumesKey. It compares that this key has not
// changed since the other volumes were read. So of two records with the same id only one is stored, whichever hosts
// they come from.
absl::StatusOr<Volume> VolumeCreator::StoredAlone(Volume volume, Damaged damaged) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> last, store_.shared().Get(NewVolumesKey()));
    const std::int64_t before = last ? last->modify_revision : 0;
    MOORING_RETURN_IF_ERROR(RefuseTwin(volume, damaged));
    const auto revision = store_.Commit(Changes().Put(volume).IfAndTouch(NewVolumesKey(), before));
    if (absl::IsAborted(revision.status())) {
      MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> now, store_.shared().Get(NewVolumesKey()));
      if ((now ? now->modify_revision : 0) != before) continue;  // another volume was stored
    }
    MOORING_RETURN_IF_ERROR(revision.status());
    volume.revisions.SetStored(*revision);
    volume.has_secrets = volume.has_secrets || !volume.secrets.empty();
    return volume;
  }
}

}  // namespace mooring::manager
