// Docker and Podman ask anew for each volume of a container that they start. So what is attached for them and not asked
// for since the machine was booted is for containers that do not run: given back at the start, where it would else be
// mounted again, and its claim be held, for nobody. Within a boot that cannot be told: containers outlive the daemon.
#ifndef MOORING_MANAGER_STATE_BOOT_H_
#define MOORING_MANAGER_STATE_BOOT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Where volumes are attached for Docker.
std::string DockerDirectory(const std::string& state_dir);

bool IsAttachedForDocker(const MountRecord& record, const std::string& state_dir);

// Whether a manager has served in another boot than `boot` before, and in that one not yet. Nothing is known of the
// first time: no.
absl::StatusOr<bool> IsFirstOfBoot(State& state, const std::string& host, const std::string& boot);

// Before anything is attached for Docker: what is would else be given back at the next start.
absl::Status KeepBoot(State& state, const std::string& host, const std::string& boot);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_STATE_BOOT_H_
