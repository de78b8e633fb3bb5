// `mooring doctor`, from the question to the findings: collects the facts and applies the rules to them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

struct Question {
  std::string subject;    // a path, the ID of a volume, or empty
  pid_t pid = 0;          // the process that should see the mount
  std::string container;  // the container that should see it, by ID
  std::string endpoint;
  std::string manager;  // its socket; empty: the default one, if it is there
  std::string state_dir = "/var/lib/mooring";
  bool json = false;
};

struct Tree {
  std::string title;
  PropagationGroup group;
};

struct Examination {
  MountGraph graph;  // `trees` points into it
  Findings findings;
  std::vector<std::string> checked;  // "capabilities", "42 mounts", …
  std::vector<std::string> seen;     // sentences: where the path is visible
  std::vector<Tree> trees;
};

// An error: the question cannot be answered (no such path, process or container).
absl::StatusOr<Examination> Examine(const Question& question);

}  // namespace mooring::cli::doctor_area
