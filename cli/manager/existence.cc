#include "cli/manager/existence.h"

namespace mooring::cli::manager_area {

absl::Status CheckVolume(const Session& session, const v1::VolumeKey& key) {
  if (key.id().empty()) return absl::OkStatus();
  v1::GetVolumeRequest request;
  *request.mutable_key() = key;
  return session.Call(&Manager::Stub::GetVolume, request).status();
}

absl::Status CheckPlugin(const Session& session, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  v1::ListPluginsRequest request;
  request.set_name(name);
  return session.Call(&Manager::Stub::ListPlugins, request).status();
}

absl::Status CheckHost(const Session& session, const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  v1::ListHostsRequest request;
  request.set_name(name);
  return session.Call(&Manager::Stub::ListHosts, request).status();
}

}  // namespace mooring::cli::manager_area
