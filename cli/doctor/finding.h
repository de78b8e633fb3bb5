// A finding of `mooring doctor`.
#pragma once

#include <string>
#include <vector>

namespace mooring::cli::doctor_area {

enum class Severity {
  kProblem,  // something does not work, or will not work
  kNote,     // it works, but slower or with a limit
};

struct Finding {
  std::string kind;  // for scripts: "not-shared"; docs/cli.md lists all kinds
  Severity severity = Severity::kProblem;
  std::string what;                   // a sentence or two
  std::vector<std::string> commands;  // that repair it, to be run in this order
};

using Findings = std::vector<Finding>;

}  // namespace mooring::cli::doctor_area
