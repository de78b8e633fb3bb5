// Limits the system calls of the mount helper and of the programs that it runs, seccomp(2). A crafted image that
// exploits e2fsck or a parser of the helper can then make the listed calls only.
//
//   spawner, helper   a list of allowed calls; every other call gives ENOSYS
//   mkfs, e2fsck, …   the same list without mounts, device nodes, sockets and the device mapper, which give EPERM
//   lvm, cryptsetup   as mkfs, but with the nodes of block devices and the device mapper
//   mount.TYPE        all calls but those that change the state of the host, or the device mapper, which give EPERM (in
//                     the helper: its list)
#pragma once

#include "absl/status/status.h"

namespace mooring {

enum class ProgramKind {
  kTool,       // mkfs, e2fsck, cp, …
  kLvm,        // lvm that changes something, and the programs that it starts
  kLvmReport,  // lvm that reads: vgs, lvs, lvmconfig
  kCryptsetup,
};

// Permanent, for the calling thread and everything that it starts. Needs no_new_privs or CAP_SYS_ADMIN. `maps_devices`:
// the list also has the calls that only lvm, thin_check and cryptsetup make.
absl::Status ConfineHelperCalls(bool maps_devices);

// The same for a thread that is about to start a program. Sets no_new_privs in this thread.
absl::Status ConfineProgramCalls(ProgramKind kind);

// The same for a child process that mounts, and for the programs that it runs (mounter/process/child_call.h).
absl::Status ConfineChildCalls();

}  // namespace mooring
