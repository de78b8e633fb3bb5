// Mounts whose filesystem answers nothing any more: its server is dead (ENOTCONN), has forgotten it (ESTALE), or it was
// shut down after errors (EIO); or hangs.
#ifndef MOORING_CLI_DOCTOR_HEALTH_H_
#define MOORING_CLI_DOCTOR_HEALTH_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

inline constexpr int kHangs = -1;
inline constexpr int kNotAsked = -2;  // its path leads through one that hangs

struct Place {
  std::string path;
  dev_t device = 0;  // of the filesystem; 0: not known
};

// Of each place 0, the errno of looking at it, kHangs or kNotAsked. Asked in a child process, so that one that hangs,
// even unkillably, holds nobody up for longer than `patience`; where one hangs, so does every other of its filesystem,
// which is not asked. No automount is triggered. An error: they cannot be asked at all.
absl::StatusOr<std::vector<int>> AskPlaces(const std::vector<Place>& places, std::chrono::milliseconds patience);

struct AskedMount {
  const TableMount* mount = nullptr;  // that its path leads to
  int answer = 0;                     // of AskPlaces
};

// What is wrong with the mounts of `view` that were asked; `covered`, which no path leads to, could not be. `pid`:
// whose namespace it is, 0 for this one. A command is printed only for a mount that its path leads to for sure.
Findings FindBroken(const NamespaceView& view, const std::vector<AskedMount>& asked,
                    const std::vector<const TableMount*>& covered, pid_t pid);

struct Health {
  Findings findings;
  std::size_t mounts = 0;  // looked at
};

// The mounts of `view` at and below `path`, and the one it lies in.
absl::StatusOr<Health> CheckHealth(const NamespaceView& view, const std::string& path, pid_t pid,
                                   std::chrono::milliseconds patience);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_HEALTH_H_
