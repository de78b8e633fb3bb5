// Explains why a mount is not visible where it should be: a pure function of the mounts of several namespaces.
//
// A mount appears in another namespace in two ways only, mount_namespaces(7). Either that namespace was copied from one
// with the mount, or the parent mount (here: the carrier) propagates to a peer or slave there.
#pragma once

#include <string>

#include "cli/doctor/finding.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

struct VisibilityQuestion {
  std::string path;                      // in the first view of the graph
  const NamespaceView* other = nullptr;  // where it should be visible; nullptr: anywhere else
  bool empty_directory = false;          // whether the path is one, for this process
};

struct Visibility {
  Findings findings;
  std::string seen_at;                  // the path in the other view; empty if not visible, or without another view
  const TableMount* mount = nullptr;    // the mount at the path; nullptr if there is none
  const TableMount* carrier = nullptr;  // its parent, or the mount that contains the path
};

Visibility ExplainVisibility(const MountGraph& graph, const VisibilityQuestion& question);

}  // namespace mooring::cli::doctor_area
