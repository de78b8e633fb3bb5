// The user that mooring-plugin works as once its mount helper runs: --user.
#ifndef MOORING_PLUGIN_PROCESS_RUN_AS_H_
#define MOORING_PLUGIN_PROCESS_RUN_AS_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct RunAs {
  uid_t uid = 0;
  gid_t gid = 0;
  bool is_root() const { return uid == 0; }  // it stays what it is
};

// "NAME" or "UID", with ":GROUP" or ":GID" or without: then the user's own group, and of a number that no file names
// the group of the same number. Empty: root. Numbers need no /etc/passwd. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<RunAs> ParseRunAs(const std::string& text);

// For good, of this process: no groups but its own, and no way back. Called while there is one thread.
absl::Status Become(const RunAs& user);

// Whether it would work; tried in a child of this process.
absl::Status CheckMayBecome(const RunAs& user);

// What `work` gives to that user, whom this process may become, as an errno; likewise.
int ErrnoAs(const RunAs& user, const std::function<int()>& work);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_RUN_AS_H_
