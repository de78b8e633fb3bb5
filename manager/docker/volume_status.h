// What `docker volume inspect` shows of a volume, under "Status".
#ifndef MOORING_MANAGER_DOCKER_VOLUME_STATUS_H_
#define MOORING_MANAGER_DOCKER_VOLUME_STATUS_H_

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
  std::vector<Claim> claims;                  // of it
  std::vector<AttachmentRecord> attachments;  // of it, on this host
  std::optional<PluginStatus> plugin;         // none: it is not known here
};

// Absent is what does not apply. Never secrets or mount flags.
nlohmann::json DockerStatusOf(const DockerVolumeFacts& facts);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_DOCKER_VOLUME_STATUS_H_
