#include "plugin/config/run_as.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>
#include <string_view>

#include "base/child.h"
#include "base/server_start.h"
#include "base/status.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

// Empty: not a number, or the largest one, which means "no change" to setresuid(2).
std::optional<std::uint32_t> NumberIn(std::string_view text) {
  const std::optional<std::uint32_t> number = ParseWhole<std::uint32_t>(text);
  return number != std::numeric_limits<std::uint32_t>::max() ? number : std::nullopt;
}

absl::Status Wrong(const std::string& text, const std::string& rule) { return WrongFlag("--user", text, rule); }

std::string Unknown(const char* what, const char* file) {
  return fmt::format("{} here has no such {}: give its number", file, what);
}

absl::StatusOr<RunAs> UserIn(const std::string& text, const std::string& word) {
  const std::optional<std::uint32_t> number = NumberIn(word);
  const passwd* const entry = number ? ::getpwuid(*number) : ::getpwnam(word.c_str());
  if (entry != nullptr) return RunAs{entry->pw_uid, entry->pw_gid};
  if (!number) return Wrong(text, Unknown("user", "/etc/passwd"));
  return RunAs{*number, *number};
}

absl::StatusOr<gid_t> GroupIn(const std::string& text, const std::string& word) {
  if (const std::optional<std::uint32_t> number = NumberIn(word)) return *number;
  const group* const entry = ::getgrnam(word.c_str());
  if (entry == nullptr) return Wrong(text, Unknown("group", "/etc/group"));
  return entry->gr_gid;
}

bool StaysAsItIs(const RunAs& user) { return user.is_root() || user.uid == ::geteuid(); }

int ErrnoOfBecoming(const RunAs& user) {
  if (StaysAsItIs(user)) return 0;
  const bool done = ::setgroups(0, nullptr) == 0 && ::setresgid(user.gid, user.gid, user.gid) == 0 &&
                    ::setresuid(user.uid, user.uid, user.uid) == 0;
  return done ? 0 : errno;
}

absl::Status AsStatus(int error, const RunAs& user) {
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, fmt::format("become user {}:{} (start the plugin as root, with CAP_SETUID and CAP_SETGID)",
                                        user.uid, user.gid));
}

int ErrnoInChild(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(work());
  const int status = AwaitChild(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

}  // namespace

absl::StatusOr<RunAs> ParseRunAs(const std::string& text) {
  if (text.empty()) return RunAs{};
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (name.empty()) return Wrong(text, "write NAME or UID, and after a colon a group or its number");
  MOORING_ASSIGN_OR_RETURN(RunAs user, UserIn(text, name));
  if (colon != std::string::npos) {
    MOORING_ASSIGN_OR_RETURN(user.gid, GroupIn(text, text.substr(colon + 1)));
  }
  if (user.is_root() && user.gid != 0) return Wrong(text, "root keeps its group");
  return user;
}

absl::Status Become(const RunAs& user) { return AsStatus(ErrnoOfBecoming(user), user); }

absl::Status CheckMayBecome(const RunAs& user) {
  if (StaysAsItIs(user)) return absl::OkStatus();
  return AsStatus(ErrnoInChild([&user] { return ErrnoOfBecoming(user); }), user);
}

int ErrnoAs(const RunAs& user, const std::function<int()>& work) {
  return ErrnoInChild([&] {
    const int error = ErrnoOfBecoming(user);
    return error == 0 ? work() : error;
  });
}

}  // namespace mooring
