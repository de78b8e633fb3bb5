// without WHAT[,WHAT]... [--errno ENOSYS|EPERM] [--] COMMAND [ARGUMENT]...
//
// Runs a command as on an older kernel, or as under an older seccomp profile. Each WHAT is a system call that fails
// (with ENOSYS unless --errno says otherwise), or one of
//   statx-unique-ids   statx(2) knows no STATX_MNT_ID_UNIQUE, as before Linux 6.8
//   linux-5.14         the calls that Mooring uses and Linux 5.14 to 6.7 lack
//   linux-6.1          the same calls. Mooring uses none that came between Linux 5.14 and 6.1.
// A filter cannot change what statx(2) answers: a preloaded library does that (old_statx.cc).
#include <seccomp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "without: %s\n", why.c_str());
  std::exit(125);
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<std::string> Expand(const std::string& list) {
  std::vector<std::string> all;
  for (const std::string& what : Split(list)) {
    const bool is_kernel = what == "linux-5.14" || what == "linux-6.1";
    for (const std::string& part : Split(is_kernel ? "statmount,listmount,statx-unique-ids" : what)) {
      all.push_back(part);
    }
  }
  return all;
}

// libseccomp 2.5 does not know these by name.
int NumberOf(const std::string& name) {
  static const std::map<std::string, int> kYoung = {{"statmount", 457}, {"listmount", 458}};
  const auto young = kYoung.find(name);
  const int number = young == kYoung.end() ? ::seccomp_syscall_resolve_name(name.c_str()) : young->second;
  if (number < 0) Die("there is no system call " + name);
  return number;
}

void Block(scmp_filter_ctx filter, const std::string& name, unsigned error) {
  if (::seccomp_rule_add(filter, SCMP_ACT_ERRNO(error), NumberOf(name), 0) != 0) Die("cannot block " + name);
}

void Preload() {
  const char* others = std::getenv("LD_PRELOAD");
  const std::string preload = MOORING_OLD_STATX + (others == nullptr ? std::string() : std::string(":") + others);
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Die("WHAT[,WHAT]... [--errno ENOSYS|EPERM] [--] COMMAND [ARGUMENT]...");
  int at = 2;
  unsigned error = ENOSYS;
  if (std::strcmp(argv[at], "--errno") == 0 && at + 1 < argc) {
    error = std::strcmp(argv[at + 1], "EPERM") == 0 ? EPERM : ENOSYS;
    at += 2;
  }
  if (at < argc && std::strcmp(argv[at], "--") == 0) ++at;
  if (at >= argc) Die("no command");

  scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
  if (filter == nullptr) Die("no filter");
  ::seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);  // root needs no no_new_privs for a filter
  for (const std::string& what : Expand(argv[1])) {
    if (what == "statx-unique-ids") {
      Preload();
    } else {
      Block(filter, what, error);
    }
  }
  if (::seccomp_load(filter) != 0) Die("the filter cannot be loaded: this needs root");
  ::execvp(argv[at], argv + at);
  Die(std::string(argv[at]) + ": " + std::strerror(errno));
}
