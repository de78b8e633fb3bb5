// The messages of lvm when it fails. Its exit code is 5 for nearly all failures, so only its words tell them apart.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "mounter/process/command.h"

namespace mooring {

// `words`: the output of a failed command. RESOURCE_EXHAUSTED: no room in the group or the thin pool. NOT_FOUND: no
// such logical volume. UNAVAILABLE: the group or a disk is missing. ABORTED: another command has the lock of the group.
// FAILED_PRECONDITION: everything else, such as a volume in use.
absl::StatusCode CodeOfLvmWords(std::string_view words);

// The lines of the output, on one line, without warnings: those come also with commands that succeed. All lines, if
// there are only warnings.
std::string TellingWords(const std::string& output);

bool MeansInUse(std::string_view words);

// The error of a command that ended with another code than 0, with what to do where that is known. `doing`: "make the
// logical volume vg/vol-1".
absl::Status LvmFailure(std::string_view doing, const CommandResult& result);

}  // namespace mooring
