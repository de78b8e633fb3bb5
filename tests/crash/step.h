// A step is a system call that changes something that outlives the program: files, devices, mounts. An ioctl that reads
// their state is a step, too. A crash before step n is a crash after the first n-1 steps.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <optional>
#include <string>
#include <vector>

namespace mooring::testing {

struct Step {
  pid_t process = 0;
  std::string program;  // "mooring-plugin", "mkfs.ext4"
  std::string call;     // "pwrite64", "LOOP_CONFIGURE"
  std::string object;   // the file, device or path: "/tmp/…/catalog.db-wal"
  bool asks = false;    // it only reads, so a kill before it equals a kill before the next step

  bool by_tool() const { return !program.starts_with("mooring-"); }  // such as mkfs
};

std::string ToString(const Step& step);

inline constexpr char kOpenExisting[] = "open existing";  // open(2) without O_CREAT

// Opens, reads, locks and closes leave nothing behind, so a kill before them is not tried. They can fail.
bool IsOnlyForErrors(const Step& step);

// "mooring-plugin: pwrite64". The k-th step of a kind is the same step in each round. Its number over all kinds may
// differ, because a program may read some state once more.
std::string KindOf(const Step& step);

// Tries every step of every program, with every error.
bool WantsAll();
bool EnvironmentSays(const char* variable, const std::string& value);

// A filter for seccomp(2). It announces the calls of all steps and a few others, and allows the rest.
std::vector<sock_filter> StepFilter();

// The step of an announced call. Empty: the call is a message to another program, or is made on a loop device whose
// file is not below `directory`. Such a device belongs to others on this host.
std::optional<Step> StepOf(const seccomp_notif& call, const std::string& directory);

}  // namespace mooring::testing
