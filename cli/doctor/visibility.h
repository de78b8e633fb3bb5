// Why a mount is not seen where it should be: a pure function of the mounts of several namespaces.
//
// A mount appears in another namespace in two ways only, mount_namespaces(7): the namespace was copied from one that
// had it, or the mount it was made in (its parent, here: the carrier) propagates to a mount there, as a peer or slave.
#ifndef MOORING_CLI_DOCTOR_VISIBILITY_H_
#define MOORING_CLI_DOCTOR_VISIBILITY_H_

#include <string>

#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

struct VisibilityQuestion {
  std::string path;                      // in the first view of the graph
  const NamespaceView* other = nullptr;  // where it should be seen; nullptr: nobody in particular
  bool empty_directory = false;          // the path is one, as far as this process sees
};

struct Visibility {
  Findings findings;
  std::string seen_at;                // in the other view; empty: not there, or nobody in particular
  const TableMount* mount = nullptr;  // at the path; nullptr: it is no mount
  const TableMount* carrier = nullptr;
};

Visibility ExplainVisibility(const MountGraph& graph, const VisibilityQuestion& question);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_VISIBILITY_H_
