// Notes of a host in its local state: the boot of its last attach for Docker, and a move that is under way.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"
#include "manager/state/state.h"

namespace mooring::manager {

// Finds the volumes that Docker does not use any more after a reboot. Docker and Podman ask for a volume again for each
// container that they start. So a volume that was attached for them in an earlier boot belongs to a container that does
// not run. The manager detaches it at the start; otherwise it would mount the volume and hold its claim for nobody.
// Within one boot this cannot be known, because containers outlive the daemon.

// The directory below which volumes are attached for Docker.
std::string DockerDirectory(const std::string& state_dir);

bool IsAttachedForDocker(const AttachmentRecord& record, const std::string& state_dir);

// Whether the stored boot is another than `boot`. False if none is stored.
absl::StatusOr<bool> IsFirstOfBoot(State& state, const std::string& host, const std::string& boot);

// Stores the boot. Call it before the first attach for Docker: otherwise the next start detaches that volume.
absl::Status KeepBoot(State& state, const std::string& host, const std::string& boot);

// A note in the local state of a host: its volumes and claims are being moved to the shared state, or back. While it is
// there, they may be in both states, so the manager does not start (host_setup.h).
struct MoveNote {
  enum class To { kShared, kLocal };
  To to = To::kShared;
  std::string cluster;  // the id of the shared state

  bool operator==(const MoveNote&) const = default;
};

// INTERNAL: the note is damaged.
absl::StatusOr<std::optional<MoveNote>> ReadMoveNote(State& local, const std::string& host);

Transaction::Put Noted(const std::string& host, const MoveNote& note);

}  // namespace mooring::manager
