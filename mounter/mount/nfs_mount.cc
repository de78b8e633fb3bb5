#include "mounter/mount/nfs_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/path.h"
#include "base/file/pipe.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount/filesystem_context.h"
#include "mounter/mount/libmount_call.h"
#include "mounter/mount/new_mount.h"
#include "mounter/mount/scratch.h"
#include "mounter/path/target.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kMountPatience{15};

bool MeansNoAnswer(int error) {
  constexpr std::array kErrors = {ETIMEDOUT, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

absl::Status Refused(const MountRequest& request, int error) {
  if (MeansNoAnswer(error)) {
    const absl::Status why = ErrnoStatus(error, "mount", request.source);
    return Unavailable("{}: see that the server runs, and serves NFSv4 to this host", Message(why));
  }
  if (error == EACCES || error == EPERM) {
    return FailedPrecondition("the server does not let this host mount {}: export it to this host (exports(5))",
                              Quote(request.source));
  }
  if (error == ENOENT) {
    return FailedPrecondition("the server has no {}: name a directory that it exports", Quote(request.source));
  }
  if (error == EPROTONOSUPPORT) {
    return FailedPrecondition("the server of {} does not speak this version of NFS: give vers=4.1, or let it serve 4.2",
                              Quote(request.source));
  }
  return WithCode(absl::StatusCode::kFailedPrecondition, ReasonOfRefusal(request, request.source, error));
}

// Gives a directory among the records of the pool another owner, as only root may. A process that was killed may have
// left it. Returns an errno.
int TryAsRoot(const std::string& records) {
  constexpr char kProbe[] = "probe";
  constexpr uid_t kNobody = 65534;
  const UniqueFd parent(::open(records.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!parent.ok() || (::mkdirat(parent.get(), kProbe, 0700) != 0 && errno != EEXIST)) return errno;
  struct stat made = {}, changed = {};
  if (::fstatat(parent.get(), kProbe, &made, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  const uid_t other = made.st_uid == 0 ? kNobody : 0;
  const int error = ::fchownat(parent.get(), kProbe, other, 0, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
  const bool is_root = ::fstatat(parent.get(), kProbe, &changed, AT_SYMLINK_NOFOLLOW) == 0 && changed.st_uid == other;
  ::unlinkat(parent.get(), kProbe, AT_REMOVEDIR);
  return error == 0 && !is_root ? EPERM : error;
}

// Without root the owner and mode of a volume cannot be set.
absl::Status CheckRootIsRoot(const std::string& place, const std::string& source) {
  errno = TryAsRoot(place + "/.mooring");
  if (errno == 0) return absl::OkStatus();
  if (errno == EROFS) return FailedPrecondition("the server exports {} read-only: export it with rw", Quote(source));
  if (errno != EPERM && errno != EACCES) return ErrnoStatus(errno, "change an owner among the records of", source);
  return FailedPrecondition(
      "the server of {} squashes root, so nobody could give a volume to its task: export it with no_root_squash "
      "(exports(5))",
      Quote(source));
}

// The work of the child.
absl::Status MountAndLook(const MountRequest& request, const std::string& place) {
  LibmountCall call = {.source = request.source, .target = place, .fs_type = request.fs_type, .words = "nosuid,nodev"};
  AddWords(call.words, OptionWords(request.options));
  if (const int error = RunLibmount(call); error != 0) return Refused(request, error);
  const auto is_hard = [](const FilesystemOption& option) { return option.key == "hard"; };
  const bool for_tasks = std::any_of(request.options.begin(), request.options.end(), is_hard);
  return for_tasks ? CheckRootIsRoot(place, request.source) : absl::OkStatus();
}

// A child that hangs would keep loop devices and locks of images open.
void CloseAllBut(const UniqueFd& kept) {
  const auto number = static_cast<unsigned>(kept.get());
  if (number > STDERR_FILENO + 1) ::close_range(STDERR_FILENO + 1, number - 1, 0);
  ::close_range(number + 1, ~0U, 0);
}

[[noreturn]] void TellFromChild(const UniqueFd& to, const absl::Status& status) {
  const std::string text = static_cast<char>(status.code()) + Message(status);
  const ssize_t told = ::write(to.get(), text.data(), text.size());
  ::_exit(told < 0 ? 1 : 0);
}

absl::Status NoAnswer(const std::string& source) {
  return Unavailable("the server of {} has not answered for {} s: see that it runs, and that this host reaches it",
                     Quote(source), kMountPatience.count());
}

// The status that the child wrote. The child is killed if it does not do that in time.
absl::Status AwaitTold(const UniqueFd& from, pid_t child, const std::string& source) {
  if (!AwaitInput(from, std::chrono::steady_clock::now() + kMountPatience)) {
    ::kill(child, SIGKILL);
    constexpr std::chrono::seconds kDeath{2};
    if (EndsWithin(OpenPidFd(child), kDeath)) AwaitChild(child);
    return NoAnswer(source);
  }
  std::array<char, 4096> text = {};
  const ssize_t got = ::read(from.get(), text.data(), text.size());
  const std::string how = HowChildEnded(AwaitChild(child));
  if (got <= 0) return Internal("mount {}: the process that mounts has ended ({})", Quote(source), how);
  return absl::Status(static_cast<absl::StatusCode>(text.front()),
                      std::string(text.data() + 1, static_cast<std::size_t>(got - 1)));
}

absl::Status MountInChild(const MountRequest& request, const std::string& place) {
  MOORING_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "fork, to mount", request.source);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    CloseAllBut(pipe.writer);
    TellFromChild(pipe.writer, MountAndLook(request, place));
  }
  pipe.writer.reset();
  return AwaitTold(pipe.reader, child, request.source);
}

}  // namespace

absl::Status CheckHasAddress(const MountRequest& request) {
  const auto is_address = [](const FilesystemOption& option) { return option.key == "addr"; };
  if (std::count_if(request.options.begin(), request.options.end(), is_address) == 1) return absl::OkStatus();
  return InvalidArgument("mount {}: one option addr has to be the address of its server", Quote(request.source));
}

absl::Status MountExport(const MountRequest& request) {
  MOORING_RETURN_IF_ERROR(CheckHasAddress(request));
  const std::vector<std::string> parent = {std::string(ParentOf(request.target))};
  MOORING_ASSIGN_OR_RETURN(const Target target, Target::ResolveForMount(request.target, parent));
  MOORING_ASSIGN_OR_RETURN(const Target::Status status, target.Stat());
  if (status.mount_root) return FailedPrecondition("{} is a mount already", Quote(request.target));
  MOORING_ASSIGN_OR_RETURN(ScratchPlace place, ScratchPlace::Take(ScratchPlace::Kind::kDirectory));
  MOORING_RETURN_IF_ERROR(MountInChild(request, place.path()));
  UniqueFd root(::open(place.path().c_str(), O_PATH | O_CLOEXEC));
  if (!root.ok()) return ErrnoStatus(errno, "open the new mount of", request.source);
  NewMount mount(std::move(root), request.source, std::move(place));
  MOORING_RETURN_IF_ERROR(mount.Set({.nosuid = true, .nodev = true}, Propagation::kInherit, false));
  return Attach(std::move(mount), target, TargetKind::kDirectory, Propagation::kPrivate, false);
}

}  // namespace mooring
