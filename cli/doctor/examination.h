// `mooring doctor` from the question to the findings: collects what is asked for and lets the rules look at it.
#ifndef MOORING_CLI_DOCTOR_EXAMINATION_H_
#define MOORING_CLI_DOCTOR_EXAMINATION_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

struct Question {
  std::string subject;    // a path, a volume's id, or empty
  pid_t pid = 0;          // where it should be seen
  std::string container;  // the same, by its id
  std::string endpoint;
  std::string state_dir;
};

struct Tree {
  std::string title;
  PropagationGroup group;
};

struct Examination {
  MountGraph graph;  // the trees point into it
  Findings findings;
  std::vector<std::string> checked;  // "capabilities", "42 mounts", …
  std::vector<std::string> seen;     // sentences: where the path is seen
  std::vector<Tree> trees;
};

// An error: the question itself cannot be answered (no such path, process or container).
absl::StatusOr<Examination> Examine(const Question& question);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_EXAMINATION_H_
