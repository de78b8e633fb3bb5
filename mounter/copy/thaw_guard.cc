#include "mounter/copy/thaw_guard.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string_view>
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
constexpr std::string_view kFewRetries = "3\n";

using Limits = std::vector<ThawGuard::RetryLimit>;

ThawGuard::RetryLimit ReadLimit(int file) {
  ThawGuard::RetryLimit limit{.file = file, .text = {}, .size = 0};
  const ssize_t got = ::pread(file, limit.text.data(), limit.text.size(), 0);
  limit.size = got > 0 ? static_cast<std::size_t>(got) : 0;
  return limit;
}

std::string_view TextOf(const ThawGuard::RetryLimit& limit) { return {limit.text.data(), limit.size}; }

void Write(int file, std::string_view text) {
  const ssize_t done = ::pwrite(file, text.data(), text.size(), 0);
  static_cast<void>(done);  // after the unmount the file is gone
}

void LimitRetries(const Limits& before) {
  for (const ThawGuard::RetryLimit& limit : before) {
    if (limit.size > 0) Write(limit.file, kFewRetries);
  }
}

// A limit that somebody else has set meanwhile stays.
void RestoreLimits(const Limits& before) {
  for (const ThawGuard::RetryLimit& limit : before) {
    if (limit.size > 0 && TextOf(ReadLimit(limit.file)) == kFewRetries) Write(limit.file, TextOf(limit));
  }
}

// Past the bound a freeze may still be under way. It can be thawed only when it is complete, so the guard repeats the
// thaw.
int Guard(const std::vector<int>& roots, const Limits& limits, int ready, int life, int bound) {
  if (::write(ready, "r", 1) != 1) return 1;
  bool ended = HasEnded(life, bound);
  if (!ended) LimitRetries(limits);
  ThawEach(roots);
  while (!ended) {
    ended = HasEnded(life, kThawAgain);
    ThawEach(roots);
  }
  RestoreLimits(limits);
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThawGuard>> ThawGuard::Start(const std::vector<int>& roots,
                                                            const std::vector<int>& retry_limits,
                                                            std::chrono::milliseconds bound) {
  Limits limits;
  for (const int file : retry_limits) limits.push_back(ReadLimit(file));
  MOORING_ASSIGN_OR_RETURN(Pipe ready, MakePipe());
  MOORING_ASSIGN_OR_RETURN(Pipe life, MakePipe());
  SideProcessSpec spec = {.name = "mooring-thaw", .kept = roots, .keeps_sys_admin = true};
  spec.kept.insert(spec.kept.end(), retry_limits.begin(), retry_limits.end());
  spec.kept.insert(spec.kept.end(), {ready.writer.get(), life.reader.get()});
  const auto limit = static_cast<int>(bound.count());
  MOORING_ASSIGN_OR_RETURN(const pid_t pid, StartSideProcess(spec, [&] {
                             return Guard(roots, limits, ready.writer.get(), life.reader.get(), limit);
                           }));
  std::unique_ptr<ThawGuard> guard(new ThawGuard(pid, std::move(life.writer), std::move(limits)));
  ready.writer.reset();
  pollfd waited = {ready.reader.get(), POLLIN, 0};
  char said = 0;
  if (::poll(&waited, 1, kReadyPatience) == 1 && ::read(ready.reader.get(), &said, 1) == 1) return guard;
  return Internal("the process that would thaw after a crash did not start: nothing is frozen without it; call again");
}

ThawGuard::~ThawGuard() {
  EndSideProcess(pid_);
  RestoreLimits(limits_);
}

}  // namespace mooring
