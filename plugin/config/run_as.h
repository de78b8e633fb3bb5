// The user that mooring-plugin works as once its mount helper runs: --user.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct RunAs {
  uid_t uid = 0;
  gid_t gid = 0;
  bool is_root() const { return uid == 0; }
};

// Parses "NAME" or "UID", with or without ":GROUP" or ":GID". Without a group: the user's own group, or for a number
// that is not in /etc/passwd the group of the same number. Empty: root.
absl::StatusOr<RunAs> ParseRunAs(const std::string& text);

// Makes this process that user for good, without supplementary groups. It must have one thread. Does nothing for root,
// and if this process is that user already.
absl::Status Become(const RunAs& user);

// Tries Become in a child process.
absl::Status CheckMayBecome(const RunAs& user);

// Runs `work` in a child process as that user. The result is its errno, or the errno of Become.
int ErrnoAs(const RunAs& user, const std::function<int()>& work);

}  // namespace mooring
