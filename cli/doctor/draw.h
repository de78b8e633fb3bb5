// Draws the propagation tree: a peer group with its mounts, and below it the mounts and groups that receive from it.
//
//   peer group 12
//   ├─ /srv in this namespace
//   ├─ /srv in pid 811 (nomad)
//   ├▶ /data in pid 902 (redis), receives
//   └▶ peer group 15, receives
//      └─ /srv in pid 1003 (task)
#pragma once

#include <string>

#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

enum class Lines { kUnicode, kAscii };

Lines LinesOfLocale();  // from LC_ALL, LC_CTYPE and LANG, locale(7)

// Complete lines, fit for a terminal. Mounts in `here` are drawn as "in this namespace".
std::string DrawTree(const PropagationGroup& group, const NamespaceView& here, Lines lines);

std::string TreeJson(const PropagationGroup& group);

}  // namespace mooring::cli::doctor_area
