// Finds broken and hung mounts. The server of the filesystem is dead (ENOTCONN), has forgotten it (ESTALE), or does not
// answer; or the filesystem was shut down after errors (EIO).
#pragma once

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
inline constexpr int kNotAsked = -2;  // the path leads through a mount that hangs

struct Place {
  std::string path;
  dev_t device = 0;  // of the filesystem; 0 if unknown
};

// Returns for each place 0, an errno, kHangs or kNotAsked. A child process looks at the places, so a place that hangs
// costs at most `patience`, even if the child cannot be killed. If a place hangs, the other places of its filesystem
// count as hung without a check. Triggers no automount. An error: no place could be checked.
absl::StatusOr<std::vector<int>> AskPlaces(const std::vector<Place>& places, std::chrono::milliseconds patience);

struct AskedMount {
  const TableMount* mount = nullptr;  // its path leads to it
  int answer = 0;                     // from AskPlaces
};

// The findings for the mounts of `view` in `asked`, and for `covered`, which no path leads to. `pid` is the process of
// the namespace, 0 for this one. A finding has commands only if the path certainly leads to the mount.
Findings FindBroken(const NamespaceView& view, const std::vector<AskedMount>& asked,
                    const std::vector<const TableMount*>& covered, pid_t pid);

struct Health {
  Findings findings;
  std::size_t mounts = 0;  // that were checked
};

// Checks the mounts of `view` at and below `path`, and the mount that contains `path`.
absl::StatusOr<Health> CheckHealth(const NamespaceView& view, const std::string& path, pid_t pid,
                                   std::chrono::milliseconds patience);

}  // namespace mooring::cli::doctor_area
