// The directory of one instance that the supervisor runs: its socket, its log, and a note that describes it to the next
// manager. The note is written before the launch.
//
//   <socket root>/<plugin>-<8 hex>/   instance   csi.sock   log, process (of the exec launcher)
//
// The directory is removed with its instance. It lies below /run, so it ends with the boot, as its process does.
#pragma once

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
  std::string engine;  // kContainer: the API socket

  std::string SocketPath() const { return path + "/csi.sock"; }
};

// Makes the directory with its note. INVALID_ARGUMENT: the path of the socket would be too long.
absl::StatusOr<InstanceDirectory> MakeInstanceDirectory(const std::string& socket_root, const std::string& plugin,
                                                        const PluginRecord::Run& run);

// Gives all instance directories. A directory without a note was never launched, and is removed. A note that cannot be
// read is the error. Directories with other names, or with a note that does not parse, are left alone.
absl::StatusOr<std::vector<InstanceDirectory>> FindInstanceDirectories(const std::string& socket_root);

// Whether there is a directory of this instance id. True also if `id` is not an instance id, or the check fails, so
// that nothing is removed by mistake.
bool IsInstanceOnRecord(const std::string& socket_root, const std::string& id);

// Removes the directory and the manager's files in it. A directory with other files stays.
void RemoveInstanceDirectory(const std::string& path);

}  // namespace mooring::manager
