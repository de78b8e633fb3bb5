// Gives up the privileges that a process does not need, capabilities(7).
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mooring {

struct Privilege {
  int capability;        // CAP_…
  std::string_view why;  // docs/security.md repeats it: change both
};

// The capabilities that mooring-mounter keeps.
const std::vector<Privilege>& HelperPrivileges();

// Prevents programs with file capabilities, and programs run by root, from regaining any other capability. Needs
// CAP_SETPCAP, and does nothing without it.
void DropFromBoundingSet(const std::vector<int>& keep);

// Gives them up for this thread and all that it starts, if no_new_privs is set or the bounding set lacks them.
absl::Status GiveUp(const std::vector<int>& capabilities);

// Keeps only the named capabilities, limits the bounding set to them (with CAP_SETPCAP), and sets no_new_privs. This is
// permanent, for this thread and everything that it starts. Call it while the process has one thread.
absl::Status KeepOnly(const std::vector<int>& capabilities);

}  // namespace mooring
