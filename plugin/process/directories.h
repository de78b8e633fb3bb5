// The directories that the plugin keeps its files in: the state directory, and the directories of pools on disk.
#ifndef MOORING_PLUGIN_PROCESS_DIRECTORIES_H_
#define MOORING_PLUGIN_PROCESS_DIRECTORIES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugin/config/config.h"

namespace mooring {

// Makes the missing directories for the user of --user (0700), and checks all of them. The result has their real paths:
// the mount helper follows no symbolic links. An existing directory never changes its owner.
// INVALID_ARGUMENT: the directory of one pool lies in that of another.
// FAILED_PRECONDITION: a directory belongs to another user (the message has the chown command), or others may write in
// it, or the user may not. With --require-directories also: it is missing.
absl::StatusOr<Config> PrepareDirectories(Config config);

// FAILED_PRECONDITION: this process may not write in the directory, or its filesystem is read-only.
absl::Status CheckWritable(const std::string& directory, std::string_view what);

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_DIRECTORIES_H_
