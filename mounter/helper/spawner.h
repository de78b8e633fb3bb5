// The spawner starts mount helpers for the plugin.
//
//   mooring-plugin ──exec──▶ mooring-spawner ──fork──▶ mooring-mounter      (one program, two names in ps)
//        │  spawner socket ────────┘                        │
//        └─ control socket, and the channels sent over it ──┘
//
// A plugin that has given up its privileges cannot start a privileged process. So it starts the spawner first: a
// process with one thread, which forks a helper on each request. The spawner ends when its socket is closed and its
// helpers have ended. The policy of the helpers is fixed when the spawner starts.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/helper/helper_flags.h"

namespace mooring {

inline constexpr int kSpawnerSocket = 3;  // the descriptor under which mooring-mounter finds it

// At most one helper serves. A killed helper stays while the kernel holds one of its threads in a call that hangs.
// Its successor starts anyway, but no more than this many killed helpers may be left.
inline constexpr std::size_t kMostHungHelpers = 8;

struct HelperProcess {
  pid_t pid = -1;
  UniqueFd control;         // SOCK_SEQPACKET; readable, without data, when the helper has ended
  std::string predecessor;  // how the helper before this one ended, for the log; empty for the first
};

// The plugin's side. Not safe from several threads.
class HelperSpawner {
 public:
  // Executes `program`, mooring-mounter. FAILED_PRECONDITION: it cannot be executed.
  static absl::StatusOr<HelperSpawner> Start(const std::string& program, const HelperFlags& flags);
  HelperSpawner(HelperSpawner&& other) noexcept;
  HelperSpawner& operator=(HelperSpawner&&) = delete;
  ~HelperSpawner();  // closes the socket, and waits up to two seconds for the spawner and its helpers to end

  // Kills the previous helper if it still runs. A helper that follows another one soon starts after a pause of at most
  // a second. UNAVAILABLE: the spawner has ended. FAILED_PRECONDITION: kMostHungHelpers killed helpers have not ended.
  absl::StatusOr<HelperProcess> StartHelper();

  // Makes StartHelper fail from now on, also a call that waits in another thread.
  void Disconnect() const;

  pid_t pid() const { return pid_; }
  const UniqueFd& socket() const { return socket_; }  // readable outside StartHelper: the spawner has ended

 private:
  HelperSpawner(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_ = -1;
  UniqueFd socket_;
};

// The spawner's side. On each request it kills the previous child and forks the next, which runs `serve` and exits with
// its result. Returns when the socket is closed and the children have ended.
absl::Status RunSpawner(UniqueFd socket, const std::function<int(const UniqueFd& control)>& serve);

}  // namespace mooring
