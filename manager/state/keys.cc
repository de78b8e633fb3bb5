#include "manager/state/keys.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cctype>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/records/names.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::size_t kLongestEscaped = 180;
constexpr std::string_view kRequestSecrets = "shared/request-secrets/";

bool StandsForItself(char c, std::size_t at) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80) return false;
  return std::isalnum(byte) != 0 || c == '-' || c == '_' || (c == '.' && at > 0);
}

std::string Sha256(std::string_view text) {
  std::array<unsigned char, 32> digest = {};
  ::EVP_Digest(text.data(), text.size(), digest.data(), nullptr, ::EVP_sha256(), nullptr);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace

absl::Status CheckName(std::string_view field, std::string_view name) {
  if (name.empty()) return InvalidArgument("{} is missing", field);
  if (name.size() > kLongestName) {
    return InvalidArgument("{} {} has {} bytes, more than {}", field, Quote(name, 64), name.size(), kLongestName);
  }
  if (HasControlByte(name)) return InvalidArgument("{} {} has control characters", field, Quote(name));
  if (!IsUtf8(name)) return InvalidArgument("{} {} is not UTF-8", field, Quote(name));
  return absl::OkStatus();
}

std::string Escape(std::string_view name) {
  std::string escaped;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (StandsForItself(name[i], i)) {
      escaped += name[i];
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(name[i]));
    }
  }
  if (escaped.size() <= kLongestEscaped) return escaped;
  return escaped.substr(0, kLongestEscaped) + "~" + Sha256(name);
}

std::string SharedPrefix() { return "shared/"; }
std::vector<std::string> MovedPrefixes() {
  return {ClaimsPrefix(), SecretsPrefix(), SnapshotsPrefix(), VolumesPrefix()};
}
std::string VolumesPrefix() { return "shared/volumes/"; }
std::string VolumesPrefix(const std::string& ns) { return fmt::format("shared/volumes/{}/", Escape(ns)); }
std::string VolumeStateKey(const VolumeKey& volume) { return VolumesPrefix(volume.ns) + Escape(volume.id); }

std::string SecretsPrefix() { return "shared/secrets/"; }
std::string SecretsStateKey(const VolumeKey& volume) {
  return fmt::format("{}{}/{}", SecretsPrefix(), Escape(volume.ns), Escape(volume.id));
}

std::string SnapshotsPrefix() { return "shared/snapshots/"; }
std::string SnapshotsPrefix(const std::string& plugin) {
  return fmt::format("{}{}/", SnapshotsPrefix(), Escape(plugin));
}
std::string SnapshotStateKey(const std::string& plugin, const std::string& source_volume_id, const std::string& name) {
  return fmt::format("{}{}/{}", SnapshotsPrefix(plugin), Escape(source_volume_id), Escape(name));
}

std::string ClusterKey() { return "shared/cluster"; }
std::string NewVolumesKey() { return "shared/new-volumes"; }

std::string ClaimsPrefix() { return "shared/claims/"; }
std::string ClaimsPrefix(const VolumeKey& volume) {
  return fmt::format("shared/claims/{}/{}/", Escape(volume.ns), Escape(volume.id));
}
std::string ClaimStateKey(const VolumeKey& volume, ClaimMode mode, const std::string& allocation) {
  return fmt::format("{}{}/{}", ClaimsPrefix(volume), ToString(mode), Escape(allocation));
}

std::string HostsPrefix() { return "shared/hosts/"; }
std::string HostStateKey(const std::string& host) { return HostsPrefix() + Escape(host); }
std::string MoveProgressKey(const std::string& host) { return "shared/moves/" + Escape(host); }
std::string LivePrefix() { return "live/"; }
std::string LiveKey(const std::string& host) { return LivePrefix() + Escape(host); }
std::string ControllersPrefix() { return "shared/controllers/"; }
std::string ControllerStateKey(const std::string& plugin, const std::string& host) {
  return fmt::format("{}{}/{}", ControllersPrefix(), Escape(plugin), Escape(host));
}
std::string RequestsPrefix() { return "shared/requests/"; }
std::string RequestStateKey(const std::string& id) { return RequestsPrefix() + Escape(id); }
std::string RequestSecretsKey(const std::string& id) { return std::string(kRequestSecrets) + Escape(id); }
std::string RequestWorkersPrefix() { return "shared/request-workers/"; }
std::string RequestWorkerKey(const std::string& id) { return RequestWorkersPrefix() + Escape(id); }
std::string RecoveryKey(const std::string& host) { return "shared/recoveries/" + Escape(host); }
std::string EventsPrefix() { return "shared/events/"; }
std::string EventsPrefix(const std::string& host) { return fmt::format("{}{}/", EventsPrefix(), Escape(host)); }

std::string MountFlagsStateKey(const VolumeKey& volume) { return SecretsStateKey(volume) + "/mount-flags"; }

bool IsSecret(std::string_view key) { return key.starts_with(SecretsPrefix()) || key.starts_with(kRequestSecrets); }
bool IsOfOneHost(std::string_view key) { return key.starts_with("hosts/"); }

std::string MountsPrefix(const std::string& host) { return fmt::format("hosts/{}/mounts/", Escape(host)); }
std::string MountsPrefix(const std::string& host, const std::string& allocation) {
  return fmt::format("{}{}/", MountsPrefix(host), Escape(allocation));
}
std::string MountStateKey(const std::string& host, const std::string& allocation, const std::string& request) {
  return MountsPrefix(host, allocation) + Escape(request);
}
std::string PluginsPrefix(const std::string& host) { return fmt::format("hosts/{}/plugins/", Escape(host)); }
std::string PluginStateKey(const std::string& host, const std::string& name) {
  return PluginsPrefix(host) + Escape(name);
}
std::string RegistryStateKey(const std::string& host) { return fmt::format("hosts/{}/registry", Escape(host)); }
std::string DockerPrefix(const std::string& host) { return fmt::format("hosts/{}/docker/", Escape(host)); }
std::string DockerStateKey(const std::string& host, const std::string& volume) {
  return DockerPrefix(host) + Escape(volume);
}
std::string JoinedClusterKey(const std::string& host) { return fmt::format("hosts/{}/cluster", Escape(host)); }
std::string MoveNoteKey(const std::string& host) { return fmt::format("hosts/{}/move", Escape(host)); }
std::string BootStateKey(const std::string& host) { return fmt::format("hosts/{}/boot", Escape(host)); }

}  // namespace mooring::manager
