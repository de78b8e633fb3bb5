// The propagation tree, drawn: a peer group with its mounts, and below it who receives from it.
//
//   peer group 12
//   ├─ /srv in this namespace
//   ├─ /srv in pid 811 (nomad)
//   ├▶ /data in pid 902 (redis), receives
//   └▶ peer group 15, receives
//      └─ /srv in pid 1003 (task)
#ifndef MOORING_CLI_DOCTOR_DRAW_H_
#define MOORING_CLI_DOCTOR_DRAW_H_

#include <string>

#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {

enum class Lines { kUnicode, kAscii };

Lines LinesOfLocale();  // LC_ALL, LC_CTYPE, LANG, as the terminal's programs read them

// Complete lines, fit for a terminal. `here` is "this namespace".
std::string DrawTree(const PropagationGroup& group, const NamespaceView& here, Lines lines);

std::string TreeJson(const PropagationGroup& group);

}  // namespace mooring::cli::doctor_area

#endif  // MOORING_CLI_DOCTOR_DRAW_H_
