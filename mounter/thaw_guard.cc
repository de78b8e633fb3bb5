#include "mounter/thaw_guard.h"

#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/status.h"
#include "mounter/channel.h"
#include "mounter/side_process.h"

namespace mooring {
namespace {

constexpr int kReadyPatience = 10000;  // milliseconds
constexpr int kThawAgain = 20;         // milliseconds

// True: the other process has ended. It sends nothing.
bool HasEnded(int socket, int milliseconds) {
  pollfd waited = {socket, POLLIN, 0};
  const int events = ::poll(&waited, 1, milliseconds);
  return events > 0;
}

void ThawEach(const std::vector<int>& roots) {
  for (const int root : roots) ::ioctl(root, FITHAW, 0);  // EINVAL where it is not frozen
}

// Past the bound a freeze may still be on its way, and can be thawed only when it is complete: so again and again.
int Guard(const std::vector<int>& roots, int socket, int bound) {
  if (::send(socket, "r", 1, MSG_NOSIGNAL) != 1) return 1;
  bool ended = HasEnded(socket, bound);
  ThawEach(roots);
  while (!ended) {
    ended = HasEnded(socket, kThawAgain);
    ThawEach(roots);
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThawGuard>> ThawGuard::Start(const std::vector<int>& roots,
                                                            std::chrono::milliseconds bound) {
  MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_SEQPACKET));
  SideProcessSpec spec = {.name = "mooring-thaw", .kept = roots, .keeps_sys_admin = true};
  spec.kept.push_back(pair.theirs.get());
  const int socket = pair.theirs.get();
  const auto limit = static_cast<int>(bound.count());
  MOORING_ASSIGN_OR_RETURN(const pid_t pid,
                           StartSideProcess(spec, [&roots, socket, limit] { return Guard(roots, socket, limit); }));
  std::unique_ptr<ThawGuard> guard(new ThawGuard(pid, std::move(pair.ours)));
  pair.theirs.reset();
  pollfd waited = {guard->socket_.get(), POLLIN, 0};
  char ready = 0;
  if (::poll(&waited, 1, kReadyPatience) == 1 && ::recv(guard->socket_.get(), &ready, 1, MSG_DONTWAIT) == 1) {
    return guard;
  }
  return Internal("the process that would thaw after a crash did not start: nothing is frozen without it; call again");
}

ThawGuard::~ThawGuard() { EndSideProcess(pid_); }

}  // namespace mooring
