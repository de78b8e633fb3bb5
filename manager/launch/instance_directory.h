// The directory of one instance that the supervisor runs: its socket, its log, and what a manager that is started anew
// has to know of it, written before it is launched.
//
//   <socket root>/<plugin>-<8 hex>/   instance   csi.sock   log, process (of the exec launcher)
//
// It goes with the instance. The processes it tells of end with the boot, as what lies below /run does.
#ifndef MOORING_MANAGER_LAUNCH_INSTANCE_DIRECTORY_H_
#define MOORING_MANAGER_LAUNCH_INSTANCE_DIRECTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct InstanceDirectory {
  std::string id;    // of the instance; the name of the directory
  std::string path;  // with the socket csi.sock
  std::string plugin;
  std::uint64_t generation = 0;
  PluginRecord::Run::Kind kind = PluginRecord::Run::Kind::kExec;
  std::string engine;  // of a container

  std::string SocketPath() const { return path + "/csi.sock"; }
};

// INVALID_ARGUMENT: the path of its socket would be too long.
absl::StatusOr<InstanceDirectory> MakeInstanceDirectory(const std::string& socket_root, const std::string& plugin,
                                                        const PluginRecord::Run& run);

// All there are. One without a note was never launched, and is removed; where a note cannot be read, that is the error.
// What is not named as ours, or has a note of somebody else's, is left alone.
absl::StatusOr<std::vector<InstanceDirectory>> FindInstanceDirectories(const std::string& socket_root);

// Whether an instance of this id is on record. What is no instance's id, or cannot be asked for, counts as one.
bool IsInstanceOnRecord(const std::string& socket_root, const std::string& id);

// With our files in it. It stays where others have put something there.
void RemoveInstanceDirectory(const std::string& path);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_LAUNCH_INSTANCE_DIRECTORY_H_
