#include "mounter/copy/thaw_guard.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/file/pipe.h"
#include "base/status.h"
#include "mounter/process/side_process.h"

namespace mooring {
namespace {

constexpr int kReadyPatience = 10000;  // milliseconds
constexpr int kThawAgain = 20;         // milliseconds

// True: the other process has ended. It never sends data.
bool HasEnded(int life, int milliseconds) {
  pollfd waited = {life, POLLIN, 0};
  const int events = ::poll(&waited, 1, milliseconds);
  return events > 0;
}

void ThawEach(const std::vector<int>& roots) {
  for (const int root : roots) ::ioctl(root, FITHAW, 0);  // EINVAL where it is not frozen
}

// An xfs that cannot write its metadata repeats that for ever, its freeze waits for it, and a thaw for the freeze. With
// a limit it shuts down, and the freeze ends. A filesystem whose writes succeed does not notice.
void LimitRetries(const std::vector<int>& limits) {
  for (const int limit : limits) {
    const ssize_t done = ::write(limit, "3", 1);
    static_cast<void>(done);
  }
}

// Past the bound a freeze may still be under way. It can be thawed only when it is complete, so the guard repeats the
// thaw.
int Guard(const std::vector<int>& roots, const std::vector<int>& limits, int ready, int life, int bound) {
  if (::write(ready, "r", 1) != 1) return 1;
  bool ended = HasEnded(life, bound);
  if (!ended) LimitRetries(limits);
  ThawEach(roots);
  while (!ended) {
    ended = HasEnded(life, kThawAgain);
    ThawEach(roots);
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThawGuard>> ThawGuard::Start(const std::vector<int>& roots,
                                                            const std::vector<int>& retry_limits,
                                                            std::chrono::milliseconds bound) {
  MOORING_ASSIGN_OR_RETURN(Pipe ready, MakePipe());
  MOORING_ASSIGN_OR_RETURN(Pipe life, MakePipe());
  SideProcessSpec spec = {.name = "mooring-thaw", .kept = roots, .keeps_sys_admin = true};
  spec.kept.insert(spec.kept.end(), retry_limits.begin(), retry_limits.end());
  spec.kept.insert(spec.kept.end(), {ready.writer.get(), life.reader.get()});
  const auto limit = static_cast<int>(bound.count());
  MOORING_ASSIGN_OR_RETURN(const pid_t pid, StartSideProcess(spec, [&] {
                             return Guard(roots, retry_limits, ready.writer.get(), life.reader.get(), limit);
                           }));
  std::unique_ptr<ThawGuard> guard(new ThawGuard(pid, std::move(life.writer)));
  ready.writer.reset();
  pollfd waited = {ready.reader.get(), POLLIN, 0};
  char said = 0;
  if (::poll(&waited, 1, kReadyPatience) == 1 && ::read(ready.reader.get(), &said, 1) == 1) return guard;
  return Internal("the process that would thaw after a crash did not start: nothing is frozen without it; call again");
}

ThawGuard::~ThawGuard() { EndSideProcess(pid_); }

}  // namespace mooring
