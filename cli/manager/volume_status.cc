// Volumes: list and status.
#include <fmt/format.h>

#include "base/status.h"
#include "cli/manager/command.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/manager/show.h"
#include "cli/output/text.h"

namespace mooring::cli::manager_area {
namespace {

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
  MOORING_ASSIGN_OR_RETURN(const v1::ListVolumesResponse response, session.Call(&Manager::Stub::ListVolumes, request));
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
  MOORING_ASSIGN_OR_RETURN(const v1::GetVolumeResponse response, session.Call(&Manager::Stub::GetVolume, request));
  return session.Show(response, StatusText(response));
}

}  // namespace

Commands VolumeStatusCommands() {
  return {
      {"list", "List the volumes", {}, {&kNamespace, &kAllNamespaces, &kOfPlugin, &kQuiet}, ListVolumes},
      {"status", "Show a volume, its claims and its attachments", {&Shared::kVolumeId}, {&kNamespace}, VolumeStatus},
  };
}

}  // namespace mooring::cli::manager_area
