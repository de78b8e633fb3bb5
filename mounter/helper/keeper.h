// Who starts mount helpers, and the way to it.
//
//   mooring-plugin ──exec──▶ mooring-keeper ──fork──▶ mooring-mounter      (one program, two names in ps)
//        │  keeper socket ────────┘                        │
//        └─ control socket, and the channels that go over it ┘
//
// A plugin that has given up its privileges cannot start anything privileged. So it starts the keeper before: a process
// with one thread that does nothing but fork a helper when it is asked to, and which ends when its socket is closed and
// its helpers have ended. What they may do was fixed when it was started.
#ifndef MOORING_MOUNTER_HELPER_KEEPER_H_
#define MOORING_MOUNTER_HELPER_KEEPER_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/guard/guarded_mounter.h"

namespace mooring {

inline constexpr int kKeeperSocket = 3;  // where mooring-mounter finds it

// One helper serves at a time. A killed one is there for as long as the kernel holds one of its threads in a call that
// hangs, and it has a successor meanwhile: but no more than this many may be left over.
inline constexpr std::size_t kMostHungHelpers = 8;

struct HelperProcess {
  pid_t pid = -1;
  UniqueFd control;         // SOCK_SEQPACKET; readable, with nothing to read, when the helper has ended
  std::string predecessor;  // how the one before ended, in words; empty for the first
};

// The plugin's side. Not safe from several threads.
class Keeper {
 public:
  // Executes `program`, mooring-mounter. FAILED_PRECONDITION: it cannot be.
  static absl::StatusOr<Keeper> Start(const std::string& program, const Allowance& allowance,
                                      const std::string& log_level, const std::string& log_format);
  Keeper(Keeper&& other) noexcept;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();  // closes the socket and waits a moment for it and its helpers to end

  // The helper before is killed if it has not ended. Started soon after another one, it comes after a rest of at most a
  // second. UNAVAILABLE: the keeper itself has ended. FAILED_PRECONDITION: kMostHungHelpers of before have not ended.
  absl::StatusOr<HelperProcess> StartHelper();

  // StartHelper fails from now on, and so does one that waits in another thread.
  void Disconnect() const;

  pid_t pid() const { return pid_; }
  const UniqueFd& socket() const { return socket_; }  // readable while nothing is asked: the keeper has ended

 private:
  Keeper(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_ = -1;
  UniqueFd socket_;
};

// The keeper's side: forks when it is asked to, kills the child before, and runs `serve` in the child, whose result is
// its exit status. Returns when the socket is closed and the children have ended.
absl::Status KeepHelpers(UniqueFd socket, const std::function<int(const UniqueFd& control)>& serve);

// The command line of mooring-mounter, both ways.
struct HelperFlags {
  Allowance allowance;
  std::string log_level = "info";
  std::string log_format = "text";
};
std::vector<std::string> ArgumentsOf(const HelperFlags& flags);
absl::StatusOr<HelperFlags> ParseHelperFlags(int argc, char** argv);

}  // namespace mooring

#endif  // MOORING_MOUNTER_HELPER_KEEPER_H_
