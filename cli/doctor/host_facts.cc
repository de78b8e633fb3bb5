#include "cli/doctor/host_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/file/unique_fd.h"
#include "base/text/terminal_text.h"
#include "mounter/sys/syscalls.h"

namespace mooring::cli::doctor_area {
namespace {

struct NeededCapability {
  unsigned number;
  const char* name;
  Severity severity;
  const char* what;  // that is not possible without it
};

constexpr NeededCapability kCapabilities[] = {
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN", Severity::kProblem, "mounting, unmounting and loop devices"},
    {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", Severity::kNote, "opening images and devices that belong to others"},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", Severity::kNote, "looking at the mount namespaces of other users' processes"},
    {CAP_SYS_CHROOT, "CAP_SYS_CHROOT", Severity::kNote, "mounting in the mount namespace of another process (--pid)"},
    {CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", Severity::kNote, "growing a mounted ext4"},
    {CAP_MKNOD, "CAP_MKNOD", Severity::kNote, "making the nodes of new loop devices, where nothing else makes them"},
};

// `call` passes wrong arguments: a call that exists fails with another errno than a missing one.
struct NeededCall {
  const char* name;
  const char* since;
  Severity severity;
  const char* without;
  long (*call)();
};

constexpr long kStatMountNumber = 457;  // as in mounter/sys/syscalls.cc

constexpr const char* kNoMounts = "nothing can be mounted";

const NeededCall kCalls[] = {
    {"mount", "1.0", Severity::kProblem, kNoMounts,
     [] { return ::syscall(SYS_mount, nullptr, nullptr, nullptr, 0, nullptr); }},
    {"openat2", "5.6", Severity::kProblem, kNoMounts, [] { return ::syscall(SYS_openat2, -1, nullptr, nullptr, 0); }},
    {"open_tree", "5.2", Severity::kProblem, kNoMounts, [] { return ::syscall(SYS_open_tree, -1, nullptr, ~0U); }},
    {"move_mount", "5.2", Severity::kProblem, kNoMounts,
     [] { return ::syscall(SYS_move_mount, -1, nullptr, -1, nullptr, ~0U); }},
    {"fsopen", "5.2", Severity::kProblem, "no device, image or tmpfs can be mounted",
     [] { return ::syscall(SYS_fsopen, nullptr, ~0U); }},
    {"mount_setattr", "5.12", Severity::kProblem, kNoMounts,
     [] { return ::syscall(SYS_mount_setattr, -1, nullptr, ~0U, nullptr, 0); }},
    {"statmount", "6.8", Severity::kNote,
     "looking a mount up reads the whole table of mounts: slow where there are many",
     [] { return ::syscall(kStatMountNumber, nullptr, nullptr, 0, 0); }},
};

struct NeededFilesystem {
  const char* name;
  Severity severity;
};

constexpr NeededFilesystem kFilesystems[] = {{"ext4", Severity::kProblem}, {"xfs", Severity::kNote}};

bool Has(std::uint64_t capabilities, unsigned number) { return ((capabilities >> number) & 1U) != 0; }

// A seccomp profile older than a call refuses it with EPERM. The calls of the mount API also give EPERM to a process
// without CAP_SYS_ADMIN.
bool IsMissing(const NeededCall& needed, bool may_mount) {
  errno = 0;
  const long result = needed.call();
  return result < 0 && (errno == ENOSYS || (errno == EPERM && may_mount));
}

// Whether the kernel knows the filesystem or has a module for it.
bool KnowsFilesystem(const std::string& name) {
  std::ifstream known("/proc/filesystems");
  for (std::string word; known >> word;) {
    if (word == name) return true;
  }
  utsname system = {};
  ::uname(&system);
  for (const char* list : {"modules.dep", "modules.builtin"}) {
    std::ifstream modules(fmt::format("/lib/modules/{}/{}", system.release, list));
    const std::string wanted = fmt::format("/{}.ko", name);
    for (std::string line; std::getline(modules, line);) {
      if (line.substr(0, line.find(':')).find(wanted) != std::string::npos) return true;
    }
  }
  return false;
}

void AddCapabilities(const HostFacts& facts, Findings& findings) {
  for (const NeededCapability& needed : kCapabilities) {
    if (Has(facts.capabilities, needed.number)) continue;
    findings.push_back(
        {"missing-capability", needed.severity,
         fmt::format("{} is missing: it is needed for {}. In a container, add it (--cap-add, securityContext); "
                     "otherwise run as root",
                     needed.name, needed.what),
         needed.severity == Severity::kProblem ? std::vector<std::string>{"sudo mooring doctor"}
                                               : std::vector<std::string>()});
  }
}

void AddCalls(const HostFacts& facts, Findings& findings) {
  const std::vector<std::string> show_cause = {"uname -r", "grep Seccomp: /proc/self/status"};
  for (const NeededCall& needed : kCalls) {
    if (!facts.missing_calls.contains(needed.name)) continue;
    findings.push_back({"missing-feature", needed.severity,
                        fmt::format("{}(2) is missing: without it {}. It needs Linux {} and, in a container, a seccomp "
                                    "profile that allows it",
                                    needed.name, needed.without, needed.since),
                        needed.severity == Severity::kProblem ? show_cause : std::vector<std::string>()});
  }
}

void AddFilesystems(const HostFacts& facts, Findings& findings) {
  for (const NeededFilesystem& needed : kFilesystems) {
    if (facts.filesystems.contains(needed.name)) continue;
    findings.push_back({"missing-feature",
                        needed.severity,
                        fmt::format("the kernel does not support {}: volumes with it cannot be mounted", needed.name),
                        {fmt::format("modprobe {}", needed.name)}});
  }
}

}  // namespace

HostFacts CollectHostFacts() {
  HostFacts found;
  for (const NeededCapability& needed : kCapabilities) {
    if (sys::HasCapability(needed.number)) found.capabilities |= std::uint64_t{1} << needed.number;
  }
  const bool may_mount = Has(found.capabilities, CAP_SYS_ADMIN);
  for (const NeededCall& needed : kCalls) {
    if (IsMissing(needed, may_mount)) found.missing_calls.insert(needed.name);
  }
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  found.loop_control = control.ok() || errno == EACCES;  // missing privileges are another finding
  for (const NeededFilesystem& needed : kFilesystems) {
    if (KnowsFilesystem(needed.name)) found.filesystems.insert(needed.name);
  }
  return found;
}

Findings FindMissing(const HostFacts& facts) {
  Findings findings;
  AddCapabilities(facts, findings);
  AddCalls(facts, findings);
  if (!facts.loop_control) {
    findings.push_back({"missing-feature",
                        Severity::kProblem,
                        "there are no loop devices (/dev/loop-control), which image volumes need. In a container, bind "
                        "/dev",
                        {"modprobe loop"}});
  }
  AddFilesystems(facts, findings);
  return findings;
}

Findings FindDeadSocket(const std::string& socket, const std::string& problem, const std::string& state_dir) {
  if (problem.empty()) return {};
  return {{"dead-socket",
           Severity::kProblem,
           problem,
           {fmt::format("mooring-plugin --endpoint {} --state-dir {}", ShellQuote("unix://" + socket),
                        ShellQuote(state_dir))}}};
}

}  // namespace mooring::cli::doctor_area
