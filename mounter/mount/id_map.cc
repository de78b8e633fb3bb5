#include "mounter/mount/id_map.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/child.h"
#include "base/file/await_input.h"
#include "base/file/pipe.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

constexpr char kForm[] = "write [u|g|b:]DISK:MOUNT:COUNT, as b:0:100000:65536, or the path of a user namespace";

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

struct IdMaps {
  std::string users, groups;  // as /proc/PID/uid_map and gid_map take them
};

bool AddMapping(const std::string& text, IdMaps& maps) {
  std::vector<std::string> parts = Split(text, ':');
  if (parts.size() == 3) parts.insert(parts.begin(), "b");
  if (parts.size() != 4 || (parts[0] != "u" && parts[0] != "g" && parts[0] != "b")) return false;
  for (std::size_t part = 1; part < parts.size(); ++part) {
    if (!ParseWhole<std::uint32_t>(parts[part])) return false;
  }
  if (*ParseWhole<std::uint32_t>(parts[3]) == 0) return false;
  const std::string line = fmt::format("{} {} {}\n", parts[1], parts[2], parts[3]);
  if (parts[0] != "g") maps.users += line;
  if (parts[0] != "u") maps.groups += line;
  return true;
}

absl::StatusOr<IdMaps> Parse(const std::string& idmap) {
  IdMaps maps;
  for (const std::string& mapping : Split(idmap, ' ')) {
    if (!AddMapping(mapping, maps)) return InvalidArgument("idmap {}: {}", Quote(idmap), kForm);
  }
  return maps;
}

absl::Status WriteMap(pid_t pid, const char* file, const std::string& map) {
  if (map.empty()) return absl::OkStatus();
  const std::string path = fmt::format("/proc/{}/{}", pid, file);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.ok() && ::write(fd.get(), map.data(), map.size()) == static_cast<ssize_t>(map.size())) return absl::OkStatus();
  const absl::Status status = ErrnoStatus(errno, "write", path);
  if (errno != EINVAL) return status;
  return InvalidArgument("{}: do mappings overlap, or are there too many?", Message(status));
}

UniqueFd OpenNamespace(const std::string& path) { return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

// In the process of the new namespace. The second read ends with the parent, however that ends.
[[noreturn]] void HoldNamespace(const UniqueFd& ready, Pipe& parent) {
  parent.writer.reset();
  char answer = ::unshare(CLONE_NEWUSER) == 0 ? 0 : static_cast<char>(errno);
  if (::write(ready.get(), &answer, 1) == 1) ::_exit(static_cast<int>(::read(parent.reader.get(), &answer, 1)));
  ::_exit(1);
}

// A user namespace lasts as long as it is open, and is made by a process in it.
absl::StatusOr<UniqueFd> MakeNamespace(const IdMaps& maps) {
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
  if (!told || answer != 0) return ErrnoStatus(told ? answer : ECHILD, "make a user namespace");
  MOORING_RETURN_IF_ERROR(WriteMap(child, "uid_map", maps.users));
  MOORING_RETURN_IF_ERROR(WriteMap(child, "gid_map", maps.groups));
  const std::string path = fmt::format("/proc/{}/ns/user", child);
  UniqueFd made = OpenNamespace(path);
  if (!made.ok()) return ErrnoStatus(errno, "open", path);
  return made;
}

}  // namespace

absl::StatusOr<UniqueFd> OpenIdMap(const std::string& idmap) {
  if (!idmap.starts_with('/')) {
    MOORING_ASSIGN_OR_RETURN(const IdMaps maps, Parse(idmap));
    return MakeNamespace(maps);
  }
  UniqueFd there = OpenNamespace(idmap);
  if (!there.ok()) return ErrnoStatus(errno, "open the user namespace", idmap);
  if (::ioctl(there.get(), NS_GET_NSTYPE) == CLONE_NEWUSER) return there;
  return InvalidArgument("idmap {} is no user namespace: {}", Quote(idmap), kForm);
}

absl::StatusOr<NewMount> WithIds(NewMount mount, const std::string& idmap, bool recursive) {
  if (idmap.empty()) return mount;
  MOORING_ASSIGN_OR_RETURN(const UniqueFd user_namespace, OpenIdMap(idmap));
  MOORING_ASSIGN_OR_RETURN(NewMount copy, CloneMount(mount.fd(), mount.source(), recursive));
  MOORING_RETURN_IF_ERROR(copy.MapIds(user_namespace, recursive));
  return copy;
}

}  // namespace mooring
