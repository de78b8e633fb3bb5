// The privileges that mooring-plugin gives up once its mount helper runs. A client that takes over the plugin
// then has only its files, its sockets and the typed requests of the helper.
//
//   user: root, or the user of --user; no capability in any set (capabilities(7)); no_new_privs
//
//   landlock(7): writes in the state directory, the pools and the directories of its sockets; reads /etc, /proc, /sys,
//   /usr and the directories of key files; makes symbolic links beside the mounts of exports; no device, no TCP
//
//   seccomp(2): only the calls of gRPC, SQLite and the plugin; no exec, fork, mount or chmod(2); no socket but unix(7);
//   no connect(2), because D-Bus and container engines obey a client that is root
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "plugin/config/run_as.h"

namespace mooring {

struct SandboxPolicy {
  std::string state_dir;                    // an existing directory without symbolic links, or empty
  std::string socket_directory;             // no access if it is missing
  std::string registration_directory = {};  // kubelet's, or empty
  std::vector<std::string> pools = {};      // directories of volumes
  std::vector<std::string> linked = {};     // those among them, or above them, where it may make symbolic links

  // Directories with links to devices. If there is one, the process may receive device events of the kernel and of
  // udev.
  std::vector<std::string> device_links = {};

  // Files that may be exchanged while the process runs: it may read all files beside and below them.
  std::vector<std::string> key_files = {};
};

// Confines this process for good. It must have one thread. Without Landlock (an older kernel, or a container that
// forbids it) the log has a warning. Every other failure is an error.
absl::Status Confine(const SandboxPolicy& policy, const RunAs& user);

// Confines the process that finds the address of a server, as `user` or, from root, as the user nobody.
absl::Status ConfineResolver(const RunAs& user);

// Forbids connect(2) to all threads. Called after the check that no other process serves the socket, and before the
// first request.
absl::Status ConfineServer();

}  // namespace mooring
