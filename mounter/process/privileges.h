// What a process may do: given up where it is not needed, capabilities(7).
#ifndef MOORING_MOUNTER_PROCESS_PRIVILEGES_H_
#define MOORING_MOUNTER_PROCESS_PRIVILEGES_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mooring {

struct Privilege {
  int capability;        // CAP_…
  std::string_view why;  // for docs/security.md, which a test holds to this
};

// What mooring-mounter keeps.
const std::vector<Privilege>& HelperPrivileges();

// While CAP_SETPCAP is there: a program with a file capability, or root's exec, gets none but these back.
void DropFromBoundingSet(const std::vector<int>& keep);

// For good, for this thread and what it starts: of the capabilities it has those named stay, in the bounding set too
// (where CAP_SETPCAP allows that), no_new_privs is set. Called while there is one thread.
absl::Status KeepOnly(const std::vector<int>& capabilities);

}  // namespace mooring

#endif  // MOORING_MOUNTER_PROCESS_PRIVILEGES_H_
