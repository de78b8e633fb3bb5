// Volumes.
#include <fmt/format.h>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/manager/command.h"
#include "cli/manager/host_filter.h"
#include "cli/manager/parse/value_text.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/manager/show.h"

namespace mooring::cli::manager_area {
namespace {

absl::StatusOr<v1::Volume> Fetch(const Session& session, const v1::VolumeKey& key) {
  v1::GetVolumeRequest request;
  *request.mutable_key() = key;
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::GetVolume, request));
  return response.volume();
}

// The ID that the plugin uses for the source of a copy. INVALID_ARGUMENT: the source is a volume of another plugin.
absl::StatusOr<std::string> CloneIdOf(const Session& session, const v1::Volume& volume) {
  v1::VolumeKey key = volume.key();
  key.set_id(session.arguments.from_volume);
  MOORING_ASSIGN_OR_RETURN(const v1::Volume source, Fetch(session, key));
  if (source.plugin() == volume.plugin()) return source.external_id();
  return InvalidArgument("--from-volume: {} is a volume of the plugin {}, which copies only its own volumes",
                         Quote(key.id()), Quote(source.plugin()));
}

absl::Status Send(Session& session, const v1::CreateVolumeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::CreateVolume, request));
  return session.Show(response, VolumeText(response.volume()));
}

absl::Status CreateVolume(Session& session) {
  v1::CreateVolumeRequest request;
  v1::Volume& volume = *request.mutable_volume();
  MOORING_ASSIGN_OR_RETURN(volume, VolumeOf(session.arguments));
  SetDefaultCapability(volume);
  volume.clear_modify_revision();
  if (!session.arguments.from_volume.empty()) {
    MOORING_ASSIGN_OR_RETURN(*volume.mutable_clone_id(), CloneIdOf(session, volume));
  }
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  return Send(session, request);
}

// A volume with the settings of `source`, without its state.
v1::Volume CopyOf(const v1::Volume& source) {
  v1::Volume copy;
  copy.set_plugin(source.plugin());
  *copy.mutable_capabilities() = source.capabilities();
  if (source.has_mount_options()) *copy.mutable_mount_options() = source.mount_options();
  *copy.mutable_parameters() = source.parameters();
  *copy.mutable_required_topologies() = source.required_topologies();
  *copy.mutable_preferred_topologies() = source.preferred_topologies();
  copy.set_min_bytes(source.capacity_bytes());
  copy.set_clone_id(source.external_id());
  return copy;
}

absl::Status Clone(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const v1::Volume described, VolumeOf(session.arguments));
  MOORING_ASSIGN_OR_RETURN(const v1::Volume source, Fetch(session, described.key()));
  v1::CreateVolumeRequest request;
  v1::Volume& copy = *request.mutable_volume();
  copy = CopyOf(source);
  Overlay(copy, described);
  copy.mutable_key()->set_id(session.arguments.copy);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  return Send(session, request);
}

absl::Status RegisterVolume(Session& session) {
  v1::RegisterVolumeRequest request;
  v1::Volume& volume = *request.mutable_volume();
  MOORING_ASSIGN_OR_RETURN(volume, VolumeOf(session.arguments));
  if (volume.external_id().empty()) {
    return InvalidArgument(
        "the plugin's ID of the volume is missing: give --external-id, or use volume create for a new volume");
  }
  SetDefaultCapability(volume);
  volume.clear_modify_revision();
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::RegisterVolume, request));
  return session.Show(response, VolumeText(response.volume()));
}

// Fields that are not given stay. The request names the revision that was read, or that of the file, so it does not
// overwrite the change of another client.
absl::Status Update(Session& session) {
  MOORING_ASSIGN_OR_RETURN(const v1::Volume described, VolumeOf(session.arguments));
  v1::UpdateVolumeRequest request;
  v1::Volume& volume = *request.mutable_volume();
  MOORING_ASSIGN_OR_RETURN(volume, Fetch(session, described.key()));
  Overlay(volume, described);
  session.arguments.secrets.CopyTo(*request.mutable_secrets());
  request.set_keep_secrets(request.secrets().empty());
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::UpdateVolume, request));
  return session.Show(response, VolumeText(response.volume()));
}

absl::Status Remove(Session& session, bool deregister, const char* done) {
  v1::DeleteVolumeRequest request;
  *request.mutable_key() = KeyOf(session.arguments);
  request.set_deregister(deregister);
  request.set_must_exist(!session.arguments.if_exists);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::DeleteVolume, request));
  return session.Show(response, fmt::format("{} {}\n", done, Visible(ToString(request.key()))));
}

absl::Status DeleteVolume(Session& session) { return Remove(session, /*deregister=*/false, "deleted"); }
absl::Status Deregister(Session& session) { return Remove(session, /*deregister=*/true, "deregistered"); }

absl::Status Expand(Session& session) {
  v1::ExpandVolumeRequest request;
  *request.mutable_key() = KeyOf(session.arguments);
  request.set_min_bytes(static_cast<std::uint64_t>(session.arguments.size.value_or(0)));
  request.set_max_bytes(static_cast<std::uint64_t>(session.arguments.limit.value_or(0)));
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::ExpandVolume, request));
  const v1::Volume& volume = response.volume();
  return session.Show(
      response, fmt::format("{} has {} now\n", Visible(ToString(volume.key())), CapacityText(volume.capacity_bytes())));
}

constexpr char kAllNamespacesWord[] = "*";

std::string VolumeTable(const v1::ListVolumesResponse& response) {
  Table table({"ID", "PLUGIN", "CAPACITY", "MAY BE USED", "IN USE", "EXTERNAL ID"});
  for (const v1::Volume& volume : response.volumes()) {
    table.Add({ToString(volume.key()), volume.plugin(), CapacityText(volume.capacity_bytes()), CapabilitiesText(volume),
               volume.has_in_use() ? ToString(volume.in_use().access()) : "", volume.external_id()});
  }
  return table.ToString();
}

std::string Ids(const v1::ListVolumesResponse& response) {
  std::string ids;
  for (const v1::Volume& volume : response.volumes()) ids += Visible(volume.key().id()) + "\n";
  return ids;
}

absl::Status ListVolumes(Session& session) {
  const Arguments& arguments = session.arguments;
  if (arguments.all_namespaces && !arguments.ns.empty()) {
    return InvalidArgument("--namespace and --all-namespaces exclude each other: give one");
  }
  v1::ListVolumesRequest request;
  request.set_namespace_(arguments.all_namespaces ? kAllNamespacesWord : arguments.ns);
  request.set_plugin(arguments.plugin);
  MOORING_ASSIGN_OR_RETURN(auto response, session.Call(&Manager::Stub::ListVolumes, request));
  if (response.volumes().empty()) MOORING_RETURN_IF_ERROR(CheckPlugin(session, arguments.plugin));
  MOORING_RETURN_IF_ERROR(CheckHost(session, arguments.host));
  MOORING_ASSIGN_OR_RETURN(const HostFilter filter, HostFilter::Make(session, arguments.host));
  filter.Narrow(*response.mutable_volumes());
  return session.Show(response, arguments.quiet ? Ids(response) : VolumeTable(response));
}

std::string StatusText(const v1::GetVolumeResponse& response) {
  Details details;
  AddVolume(response.volume(), details);
  details.Add("schedulable", response.schedulable() ? "yes" : "no: " + response.unschedulable());
  std::string text = details.ToString();
  if (!response.claims().empty()) text += "\n" + ClaimTable(response.claims());
  if (!response.attachments().empty()) text += "\n" + AttachmentTable(response.attachments());
  return text;
}

absl::Status VolumeStatus(Session& session) {
  v1::GetVolumeRequest request;
  *request.mutable_key() = KeyOf(session.arguments);
  MOORING_ASSIGN_OR_RETURN(const auto response, session.Call(&Manager::Stub::GetVolume, request));
  return session.Show(response, StatusText(response));
}

constexpr char kCreateExamples[] =
    "Examples:\n  mooring volume create db --plugin mooring.csi --size 10GiB --access single-node-writer --fs-type "
    "ext4\n  mooring volume create --file volume.json";
constexpr char kRegisterExample[] =
    "Example:\n  mooring volume register db --plugin mooring.csi --external-id vol-1 --access single-node-writer";
constexpr char kUpdateExample[] = "Example:\n  mooring volume update db --mount-flag noatime";
constexpr char kCloneExample[] = "Example:\n  mooring volume clone db db-test --size 20GiB";

}  // namespace

Commands VolumeCommands() {
  const Flags use{&kAccesses, &Shared::kBlock, &kFsType, &Shared::kMountFlag, &Shared::kParam};
  const Flags sizes{&Shared::kSize, &Shared::kLimit};
  const Flags places{&Shared::kTopology, &Shared::kPreferredTopology};
  const Flags described{&kVolumeIdOrFile, &kNamespace, &kFile, &kPlugin, &kName};
  return {
      {"create",
       "Create a volume",
       {},
       AllOf<Arguments>(
           {described, sizes, use, places, {&Shared::kFromSnapshot, &Shared::kFromVolume}, Shared::kSecretFlags}),
       CreateVolume,
       kCreateExamples,
       kCreateTimeout},
      {"register",
       "Register a volume that the plugin already has",
       {},
       AllOf<Arguments>({described, {&kExternalId, &kContext}, use, Shared::kSecretFlags}),
       RegisterVolume,
       kRegisterExample},
      {"update",
       "Change a volume; settings that are not given stay",
       {},
       AllOf<Arguments>({described, sizes, use, {&kContext}, places, Shared::kSecretFlags}),
       Update,
       kUpdateExample},
      {"clone",
       "Create a copy of a volume, with the same settings",
       {&Shared::kVolumeId, &kCopyId},
       AllOf<Arguments>({{&kNamespace, &kName}, sizes, use, places, Shared::kSecretFlags}),
       Clone,
       kCloneExample,
       kCreateTimeout},
      {"expand",
       "Expand a volume",
       {&Shared::kVolumeId, &Shared::kSize},
       {&kNamespace, &Shared::kLimit},
       Expand,
       "",
       kCreateTimeout},
      {"delete",
       "Delete a volume and its data",
       {&Shared::kVolumeId},
       {&kNamespace, &kIfExists},
       DeleteVolume,
       "",
       kCreateTimeout},
      {"deregister",
       "Forget a volume; the plugin keeps it and its data",
       {&Shared::kVolumeId},
       {&kNamespace, &kIfExists},
       Deregister},
      {"list",
       "List the volumes",
       {},
       {&kNamespace, &kAllNamespaces, &kOfPlugin, &kVolumesOfHost, &kQuiet},
       ListVolumes},
      {"status", "Show a volume, its claims and its attachments", {&Shared::kVolumeId}, {&kNamespace}, VolumeStatus},
  };
}

}  // namespace mooring::cli::manager_area
