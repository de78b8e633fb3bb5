#include "mounter/helper/keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <getopt.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "base/empty_input.h"
#include "base/file/path.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/helper/channel.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

constexpr int kEndPatience = 2000;   // milliseconds
constexpr int kDeathPatience = 100;  // between the end of a helper's sockets and its own

// An answer's number: the pid of the new helper, and above it the wait status of the last one that ended, if any.
constexpr unsigned kStatusShift = 32;
constexpr std::int64_t kNoneEnded = 0xFFFF'FFFF;

std::string HowItEnded(std::int64_t number) {
  const std::int64_t status = (number >> kStatusShift) & 0xFFFF'FFFF;
  if (status == kNoneEnded) return "";
  const int wait_status = static_cast<int>(status);
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(wait_status));
}

// As posix_spawn(3), with `socket` where mooring-mounter looks for it.
int Spawn(pid_t& pid, const std::string& program, const UniqueFd& socket, std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const auto destroy = absl::MakeCleanup([&actions] { ::posix_spawn_file_actions_destroy(&actions); });
  const UniqueFd input = OpenEmptyInput();
  if (input.ok()) ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, socket.get(), kKeeperSocket);
  return ::posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers.data(), environ);
}

}  // namespace

absl::StatusOr<Keeper> Keeper::Start(const std::string& program, const Allowance& allowance,
                                     const std::string& log_level, const std::string& log_format) {
  MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_SEQPACKET));
  std::vector<std::string> arguments = {program};
  for (std::string& argument : ArgumentsOf({allowance, log_level, log_format}))
    arguments.push_back(std::move(argument));
  pid_t pid = -1;
  const int error = Spawn(pid, program, pair.theirs, std::move(arguments));
  if (error != 0) {
    return FailedPrecondition(fmt::format("start the mount helper {}: {} (--mounter=in-process does without it)",
                                          Quote(program), ::strerror(error)));
  }
  return Keeper(pid, std::move(pair.ours));
}

Keeper::Keeper(Keeper&& other) noexcept : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}

Keeper::~Keeper() {
  socket_.reset();
  if (pid_ < 0) return;
  const UniqueFd ended(sys::PidFdOpen(pid_));
  pollfd waited = {ended.get(), POLLIN, 0};
  // A helper that is at work still, or hangs, must not hold up our own end.
  if (!ended.ok() || ::poll(&waited, 1, kEndPatience) == 1) {
    ::waitpid(pid_, nullptr, ended.ok() ? 0 : WNOHANG);
    return;
  }
  log::Warning(
      "the mount helper has not ended: the kernel holds it in a call that hangs, or it waits for a program; it "
      "ends when that does",
      {{"keeper", fmt::format("{}", pid_)}});
}

absl::StatusOr<HelperProcess> Keeper::StartHelper() {
  MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_SEQPACKET));
  absl::Status sent = SendParcel(socket_, 0, pair.theirs);
  pair.theirs.reset();
  const absl::StatusOr<Parcel> answer = sent.ok() ? ReceiveParcel(socket_) : sent;
  if (!answer.ok()) return Unavailable("the keeper of the mount helper has ended");
  const auto pid = static_cast<std::int32_t>(answer->number & 0xFFFF'FFFF);
  if (pid == -EBUSY) {
    return FailedPrecondition(fmt::format(
        "start a mount helper: {} earlier ones were killed and have not ended, for the kernel holds each of "
        "them in a call that hangs; find the filesystem or device that does not answer (ps -eLo "
        "pid,stat,wchan:32,comm), or start the host again",
        kMostHungHelpers));
  }
  if (pid <= 0) return ErrnoStatus(-pid, "fork a mount helper");
  return HelperProcess{pid, std::move(pair.ours), HowItEnded(answer->number)};
}

void Keeper::Disconnect() const { ::shutdown(socket_.get(), SHUT_RDWR); }

namespace {

using Clock = std::chrono::steady_clock;

// The children of the keeper: at most one that serves, and those before it that the kernel holds.
class Helpers {
 public:
  explicit Helpers(const std::function<int(const UniqueFd& control)>& serve) : serve_(serve) {}

  // When the next one may start: at once, or, where one follows the other soon, after a rest that doubles.
  Clock::time_point NextStart() const { return started_ + rest_; }

  // Kills and reaps. The wait status of the last child that ended, if any.
  std::optional<int> EndAll();

  // The answer's lower half: the pid, or the negative errno.
  std::int32_t Start(UniqueFd& socket, const UniqueFd& control);

 private:
  struct Child {
    pid_t pid;
    bool killed;
  };

  static bool HasEnded(pid_t pid, int patience);
  static bool End(Child& child);
  void NoteStart();

  const std::function<int(const UniqueFd& control)>& serve_;
  std::vector<Child> children_;
  Clock::time_point started_{};
  Clock::duration rest_{};
};

bool Helpers::HasEnded(pid_t pid, int patience) {
  const UniqueFd ending(sys::PidFdOpen(pid));
  pollfd waited = {ending.get(), POLLIN, 0};
  return ::poll(&waited, 1, patience) > 0;
}

// It is likely to be about to end: the plugin asks for another one when its sockets are closed.
bool Helpers::End(Child& child) {
  if (HasEnded(child.pid, child.killed ? 0 : kDeathPatience)) return true;
  if (child.killed) return false;
  ::kill(child.pid, SIGKILL);
  child.killed = true;
  return HasEnded(child.pid, kDeathPatience);
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
  static constexpr std::chrono::milliseconds kFirstRest{10};
  static constexpr std::chrono::seconds kEarly{1}, kMostRest{1};
  const Clock::time_point now = Clock::now();
  const bool soon = now - NextStart() < kEarly;
  rest_ = soon ? std::clamp<Clock::duration>(rest_ * 2, kFirstRest, kMostRest) : Clock::duration{};
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

// False: the plugin has hung up.
bool Await(const UniqueFd& socket, Clock::time_point when) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
    if (left <= 0) return true;
    pollfd hangup = {socket.get(), 0, 0};
    if (::poll(&hangup, 1, static_cast<int>(left)) > 0) return false;
  }
}

}  // namespace

absl::Status KeepHelpers(UniqueFd socket, const std::function<int(const UniqueFd& control)>& serve) {
  Helpers helpers(serve);
  for (;;) {
    absl::StatusOr<Parcel> parcel = ReceiveParcel(socket);
    if (!parcel.ok() || !parcel->fd.ok()) break;  // closed, or no plugin's any more
    const std::optional<int> ended = helpers.EndAll();
    if (!Await(socket, helpers.NextStart())) break;
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

namespace {

// 0, which allows nothing, for what is no number.
std::uint64_t NumberIn(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace

std::vector<std::string> ArgumentsOf(const HelperFlags& flags) {
  std::vector<std::string> arguments;
  for (const std::string& root : flags.allowance.roots) arguments.insert(arguments.end(), {"--mount-root", root});
  for (const std::string& source : flags.allowance.sources) arguments.insert(arguments.end(), {"--source", source});
  for (const std::string& tree : flags.allowance.forbidden) arguments.insert(arguments.end(), {"--forbid-below", tree});
  for (const std::string& place : flags.allowance.kept_free) arguments.insert(arguments.end(), {"--forbid", place});
  for (const std::string& path : flags.allowance.volume_directories) {
    arguments.insert(arguments.end(), {"--volume-directory", path});
  }
  for (const std::string& links : flags.allowance.device_links) {
    arguments.insert(arguments.end(), {"--device-links", links});
  }
  arguments.insert(arguments.end(), {"--most-memory", fmt::format("{}", flags.allowance.most_memory)});
  arguments.insert(arguments.end(), {"--label-prefix", flags.allowance.label_prefix});
  arguments.insert(arguments.end(), {"--log-level", flags.log_level, "--log-format", flags.log_format});
  return arguments;
}

absl::StatusOr<HelperFlags> ParseHelperFlags(int argc, char** argv) {
  enum Flag { kRoot = 1, kSource, kForbidBelow, kForbid, kLabel, kLevel, kFormat, kVolumes, kMemory, kLinks };
  constexpr std::array<option, 11> kOptions = {{{"mount-root", required_argument, nullptr, kRoot},
                                                {"source", required_argument, nullptr, kSource},
                                                {"forbid-below", required_argument, nullptr, kForbidBelow},
                                                {"forbid", required_argument, nullptr, kForbid},
                                                {"label-prefix", required_argument, nullptr, kLabel},
                                                {"log-level", required_argument, nullptr, kLevel},
                                                {"log-format", required_argument, nullptr, kFormat},
                                                {"volume-directory", required_argument, nullptr, kVolumes},
                                                {"most-memory", required_argument, nullptr, kMemory},
                                                {"device-links", required_argument, nullptr, kLinks},
                                                {nullptr, 0, nullptr, 0}}};
  HelperFlags flags;
  ::opterr = 0;
  ::optind = 0;  // from the start, whoever asked before: getopt(3)
  for (;;) {
    const int found = ::getopt_long(argc, argv, "", kOptions.data(), nullptr);
    if (found == -1) break;
    if (found == '?') return InvalidArgument("unknown, or without its value: a flag of mooring-mounter");
    if (found == kRoot) flags.allowance.roots.emplace_back(::optarg);
    if (found == kSource) flags.allowance.sources.emplace_back(::optarg);
    if (found == kForbidBelow) flags.allowance.forbidden.emplace_back(::optarg);
    if (found == kForbid) flags.allowance.kept_free.emplace_back(::optarg);
    if (found == kLabel) flags.allowance.label_prefix = ::optarg;
    if (found == kVolumes) flags.allowance.volume_directories.emplace_back(::optarg);
    if (found == kLinks) flags.allowance.device_links.emplace_back(::optarg);
    if (found == kMemory) flags.allowance.most_memory = NumberIn(::optarg);
    if (found == kLevel) flags.log_level = ::optarg;
    if (found == kFormat) flags.log_format = ::optarg;
  }
  const bool complete = ::optind == argc && !flags.allowance.roots.empty() && !flags.allowance.label_prefix.empty();
  if (!complete)
    return InvalidArgument(
        "this program is started by mooring-plugin, with --mount-root and others (by hand, use: mooring mount)");
  return flags;
}

}  // namespace mooring
