// The "Status" of a volume in `docker volume inspect`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "manager/docker/docker_record.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/records.h"

namespace mooring::manager {

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
