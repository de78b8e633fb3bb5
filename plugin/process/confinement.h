// What mooring-plugin gives up once its mount helper runs. Whoever takes it over, by way of a request, is left with its
// own files, its own sockets, and the helper's typed requests.
//
//   user: root, or the one of --user; capabilities(7): none, in no set; no_new_privs
//
//   landlock(7): files: its state directory, its sockets', its pools'; reading of /etc, /proc, /sys, /usr; no device,
//   no TCP
//
//   seccomp(2): the calls that gRPC, SQLite and we make; no exec, no fork, no mount, no socket but unix(7), no
//   connect(2), for whom root connects to (D-Bus, a container engine) does what root asks; no chmod(2)
#ifndef MOORING_PLUGIN_PROCESS_CONFINEMENT_H_
#define MOORING_PLUGIN_PROCESS_CONFINEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "plugin/process/run_as.h"

namespace mooring {

struct Territory {
  std::string state_dir;                    // there already; real
  std::string socket_directory;             // if it is not there, nothing can be written there
  std::string registration_directory = {};  // kubelet's, where there is one
  std::vector<std::string> pools = {};      // directories of volumes

  // Of links to devices. With one, the kernel's and udev's messages on devices may be listened to.
  std::vector<std::string> device_links = {};
};

// For good, while there is one thread. A kernel without Landlock, or a container that forbids it, is worth a warning in
// the log; anything else that cannot be had is an error.
absl::Status Confine(const Territory& territory, const RunAs& user);

// And before the first request is served, but after others were asked about the socket: no connect(2) any more, for
// all threads.
absl::Status ConfineServer();

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_CONFINEMENT_H_
