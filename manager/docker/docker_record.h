// The options of a Docker volume that CSI has no field for. Stored under hosts/<host>/docker/<volume>; only the volume
// driver writes them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

inline constexpr char kDockerNamespace[] = "docker";  // of volumes that Docker creates

struct DockerRecord {
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::int64_t volume_create_revision = 0;  // StoreDockerRecord sets it
};

// The defaults if nothing is stored for this volume. A record of an earlier volume with the same name is ignored.
absl::StatusOr<DockerRecord> LoadDockerRecord(State& state, const std::string& host, const Volume& volume);
absl::Status StoreDockerRecord(State& state, const std::string& host, const Volume& volume, DockerRecord record);

// The create revisions of a volume before and after it was moved to another state.
struct RenumberedVolume {
  std::int64_t before = 0, after = 0;
};

// The puts that keep the records of this host with volumes that were moved; by the keys of the volumes in the state.
// Records of earlier volumes are left out.
absl::StatusOr<std::vector<Transaction::Put>> RenumberDockerRecords(
    State& local, const std::string& host, const std::map<std::string, RenumberedVolume>& volumes);
absl::Status RemoveDockerRecord(State& state, const std::string& host, const Volume& volume);

// The "Status" of a volume in `docker volume inspect`.
struct DockerVolumeFacts {
  Volume volume;
  DockerRecord record;
  std::vector<Claim> claims;                  // on it
  std::vector<AttachmentRecord> attachments;  // on this host
  std::optional<PluginStatus> plugin;         // nullopt: unknown on this host
};

// Fields that do not apply are absent. Never contains secrets or mount flags.
nlohmann::json DockerStatusOf(const DockerVolumeFacts& facts);

}  // namespace mooring::manager
