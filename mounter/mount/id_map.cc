#include "mounter/mount/id_map.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/pipe.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/id_mappings.h"

namespace mooring {
namespace {

// As /proc/PID/uid_map and gid_map take them.
std::string LinesOf(const std::vector<IdRange>& ranges) {
  std::string lines;
  for (const IdRange& range : ranges) lines += fmt::format("{} {} {}\n", range.disk, range.mount, range.count);
  return lines;
}

absl::Status WriteMap(pid_t pid, const char* file, const std::vector<IdRange>& ranges) {
  const std::string map = LinesOf(ranges);
  if (map.empty()) return absl::OkStatus();
  const std::string path = fmt::format("/proc/{}/{}", pid, file);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.ok() && ::write(fd.get(), map.data(), map.size()) == static_cast<ssize_t>(map.size())) return absl::OkStatus();
  if (errno != EPERM) return ErrnoStatus(errno, "write", path);
  return FailedPrecondition(
      "write {}: it needs CAP_SETUID and CAP_SETGID. Give both to this program (to a plugin: in its container or unit)",
      Quote(path));
}

UniqueFd OpenNamespace(const std::string& path) { return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

// In the process of the new namespace. The second read ends with the parent, however that ends.
[[noreturn]] void HoldNamespace(const UniqueFd& ready, Pipe& parent) {
  parent.writer.reset();
  char answer = ::unshare(CLONE_NEWUSER) == 0 ? 0 : static_cast<char>(errno);
  if (::write(ready.get(), &answer, 1) == 1) ::_exit(static_cast<int>(::read(parent.reader.get(), &answer, 1)));
  ::_exit(1);
}

// A user namespace lasts as long as it is open, and is made by a process in it. That process ends when this one has
// ended, unless another process has inherited the pipe. So there is one at a time.
absl::StatusOr<UniqueFd> MakeNamespace(const IdMappings& mappings) {
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  MOORING_ASSIGN_OR_RETURN(Pipe ready, MakePipe());
  MOORING_ASSIGN_OR_RETURN(Pipe parent, MakePipe());
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "fork, to make a user namespace");
  if (child == 0) HoldNamespace(ready.writer, parent);
  const absl::Cleanup end = [child] {
    ::kill(child, SIGKILL);
    AwaitChild(child);
  };
  ready.writer.reset();
  char answer = 0;
  const bool told = ::read(ready.reader.get(), &answer, 1) == 1;
  if (told && answer == ENOSPC) {
    return FailedPrecondition("make a user namespace: this host allows none (sysctl user.max_user_namespaces)");
  }
  if (told && answer == EPERM) {
    return FailedPrecondition(
        "make a user namespace: this program may not. RestrictNamespaces= of its unit must allow \"user\", and so must "
        "the seccomp profile of its container");
  }
  if (!told || answer != 0) return ErrnoStatus(told ? answer : ECHILD, "make a user namespace");
  MOORING_RETURN_IF_ERROR(WriteMap(child, "uid_map", mappings.users));
  MOORING_RETURN_IF_ERROR(WriteMap(child, "gid_map", mappings.groups));
  const std::string path = fmt::format("/proc/{}/ns/user", child);
  UniqueFd made = OpenNamespace(path);
  if (!made.ok()) return ErrnoStatus(errno, "open", path);
  return made;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenIdMap(const std::string& idmap) {
  if (!idmap.starts_with('/')) {
    MOORING_ASSIGN_OR_RETURN(const IdMappings mappings, ParseIdMappings(idmap));
    return MakeNamespace(mappings);
  }
  UniqueFd there = OpenNamespace(idmap);
  if (!there.ok()) return ErrnoStatus(errno, "open the user namespace", idmap);
  if (::ioctl(there.get(), NS_GET_NSTYPE) == CLONE_NEWUSER) return there;
  return InvalidArgument("idmap {} is no user namespace: give the path of one (/proc/PID/ns/user), or mappings",
                         Quote(idmap));
}

absl::StatusOr<NewMount> WithIds(NewMount mount, const std::string& idmap, bool recursive) {
  if (idmap.empty()) return mount;
  MOORING_ASSIGN_OR_RETURN(const UniqueFd user_namespace, OpenIdMap(idmap));
  MOORING_ASSIGN_OR_RETURN(NewMount copy, CloneMount(mount.fd(), mount.source(), recursive));
  MOORING_RETURN_IF_ERROR(copy.MapIds(user_namespace, recursive));
  return copy;
}

}  // namespace mooring
