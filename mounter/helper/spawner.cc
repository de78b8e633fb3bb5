#include "mounter/helper/spawner.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/child.h"
#include "base/log.h"
#include "base/status.h"
#include "mounter/helper/channel.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kEndPatience{2};           // for the spawner and its helpers to end
constexpr std::chrono::milliseconds kDeathPatience{100};  // for a helper to end after its sockets were closed

// An answer's number: the pid of the new helper, or a negative errno, in the lower half. The upper half is the wait
// status of the helper that ended last, or kNoneEnded.
constexpr unsigned kStatusShift = 32;
constexpr std::int64_t kNoneEnded = 0xFFFF'FFFF;

std::string HowPredecessorEnded(std::int64_t number) {
  const std::int64_t status = (number >> kStatusShift) & 0xFFFF'FFFF;
  return status == kNoneEnded ? "" : HowChildEnded(static_cast<int>(status));
}

}  // namespace

absl::StatusOr<HelperSpawner> HelperSpawner::Start(const std::string& program, const HelperFlags& flags) {
  MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_SEQPACKET));
  SpawnSpec spec = {.program = program,
                    .arguments = {program},
                    .variables = {},
                    .descriptors = {{pair.theirs.get(), kSpawnerSocket}}};
  for (std::string& argument : ArgumentsOf(flags)) spec.arguments.push_back(std::move(argument));
  const absl::StatusOr<pid_t> pid = SpawnProgram(spec);
  if (pid.ok()) return HelperSpawner(*pid, std::move(pair.ours));
  return FailedPrecondition("the mount helper: {} (--mounter=in-process works without it)", Message(pid.status()));
}

HelperSpawner::HelperSpawner(HelperSpawner&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}

HelperSpawner::~HelperSpawner() {
  socket_.reset();
  if (pid_ < 0) return;
  const UniqueFd process = OpenPidFd(pid_);
  // A helper that is busy or hangs must not delay the end of this process.
  if (!process.ok() || EndsWithin(process, kEndPatience)) {
    ::waitpid(pid_, nullptr, process.ok() ? 0 : WNOHANG);
    return;
  }
  log::Warning(
      "the mount helper has not ended: the kernel holds it in a call that hangs, or it waits for a program; it ends "
      "after that",
      {{"spawner", fmt::format("{}", pid_)}});
}

absl::StatusOr<HelperProcess> HelperSpawner::StartHelper() {
  MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_SEQPACKET));
  absl::Status sent = SendParcel(socket_, 0, pair.theirs);
  pair.theirs.reset();
  const absl::StatusOr<Parcel> answer = sent.ok() ? ReceiveParcel(socket_) : sent;
  if (!answer.ok()) return Unavailable("the spawner of the mount helper has ended");
  const auto pid = static_cast<std::int32_t>(answer->number & 0xFFFF'FFFF);
  if (pid == -EBUSY) {
    return FailedPrecondition(
        "start a mount helper: {} earlier ones were killed and have not ended, because the kernel holds each of them "
        "in a call that hangs; find the filesystem or device that does not answer (ps -eLo pid,stat,wchan:32,comm), or "
        "restart the host",
        kMostHungHelpers);
  }
  if (pid <= 0) return ErrnoStatus(-pid, "fork a mount helper");
  return HelperProcess{pid, std::move(pair.ours), HowPredecessorEnded(answer->number)};
}

void HelperSpawner::Disconnect() const { ::shutdown(socket_.get(), SHUT_RDWR); }

namespace {

// The children of the spawner: at most one that serves, and killed ones that the kernel still holds.
class Helpers {
 public:
  explicit Helpers(const std::function<int(const UniqueFd& control)>& serve) : serve_(serve) {}

  // The earliest time for the next start. The pause doubles while helpers follow each other within a second.
  Clock::time_point NextStart() const { return started_ + pause_; }

  // Kills and reaps. The wait status of the child that ended last, if any did.
  std::optional<int> EndAll();

  // The lower half of an answer: the pid, or the negative errno.
  std::int32_t Start(UniqueFd& socket, const UniqueFd& control);

 private:
  struct Child {
    pid_t pid;
    bool killed;
  };

  static void End(Child& child);
  void NoteStart();

  const std::function<int(const UniqueFd& control)>& serve_;
  std::vector<Child> children_;
  Clock::time_point started_{};
  Clock::duration pause_{};
};

// The plugin asks for another helper when the sockets of the last one are closed, so that one is likely to end by
// itself.
void Helpers::End(Child& child) {
  if (child.killed || EndsWithin(OpenPidFd(child.pid), kDeathPatience)) return;
  ::kill(child.pid, SIGKILL);
  child.killed = true;
  EndsWithin(OpenPidFd(child.pid), kDeathPatience);
}

std::optional<int> Helpers::EndAll() {
  std::optional<int> last;
  std::erase_if(children_, [&last](Child& child) {
    int status = 0;
    End(child);
    if (::waitpid(child.pid, &status, WNOHANG) != child.pid) return false;
    last = status;
    return true;
  });
  return last;
}

void Helpers::NoteStart() {
  static constexpr std::chrono::milliseconds kFirstPause{10};
  static constexpr std::chrono::seconds kQuickSuccession{1}, kMostPause{1};
  const Clock::time_point now = Clock::now();
  const bool soon = now - NextStart() < kQuickSuccession;
  pause_ = soon ? std::clamp<Clock::duration>(pause_ * 2, kFirstPause, kMostPause) : Clock::duration{};
  started_ = now;
}

std::int32_t Helpers::Start(UniqueFd& socket, const UniqueFd& control) {
  if (children_.size() >= kMostHungHelpers) return -EBUSY;
  NoteStart();
  const pid_t pid = ::fork();
  if (pid == 0) {
    socket.reset();
    ::_exit(serve_(control));
  }
  if (pid < 0) return -errno;
  children_.push_back({pid, false});
  return pid;
}

// False: the plugin has closed the socket.
bool SleepUntil(Clock::time_point when, const UniqueFd& socket) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
    if (left <= 0) return true;
    pollfd hangup = {socket.get(), 0, 0};
    if (::poll(&hangup, 1, static_cast<int>(left)) > 0) return false;
  }
}

}  // namespace

absl::Status RunSpawner(UniqueFd socket, const std::function<int(const UniqueFd& control)>& serve) {
  Helpers helpers(serve);
  for (;;) {
    absl::StatusOr<Parcel> parcel = ReceiveParcel(socket);
    if (!parcel.ok() || !parcel->fd.ok()) break;  // closed, or the sender is no plugin
    const std::optional<int> ended = helpers.EndAll();
    if (!SleepUntil(helpers.NextStart(), socket)) break;
    const std::int64_t low = static_cast<std::uint32_t>(helpers.Start(socket, parcel->fd));
    parcel->fd.reset();
    const std::int64_t high = ended ? *ended : kNoneEnded;
    if (!SendParcel(socket, low | (high << kStatusShift)).ok()) break;
  }
  socket.reset();
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  return absl::OkStatus();
}

}  // namespace mooring
