// A step: one system call by which a program changes something that outlives it (files, devices, mounts), or an ioctl
// that asks about such a thing. A crash just before the n-th of them is a crash after what the n-1 before it left.
#ifndef MOORING_TESTS_CRASH_STEP_H_
#define MOORING_TESTS_CRASH_STEP_H_

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
  std::string object;   // what it is made on: "/tmp/…/catalog.db-wal"
  bool asks = false;    // it changes nothing: killed before it is as killed before the next one

  bool by_tool() const { return !program.starts_with("mooring-"); }  // a program that Mooring runs
};

std::string ToString(const Step& step);

// "mooring-plugin: pwrite64". The k-th of a kind is the same step each time the call is made, also when the kernel or
// another process makes it look once more somewhere.
std::string KindOf(const Step& step);

// seccomp(2): announces the calls of all steps, and some that are none; lets all others pass.
std::vector<sock_filter> StepFilter();

// The announced call; nothing where it is no step: a message to another program, a loop device over a file that is not
// below `directory` (of somebody else on this host).
std::optional<Step> StepOf(const seccomp_notif& call, const std::string& directory);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_CRASH_STEP_H_
