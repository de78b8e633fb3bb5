// Mounts by the program of a filesystem, /sbin/mount.TYPE, as mount(8) runs it: for a filesystem in user space, FUSE.
//
// The program has root's privileges and the namespaces of this process. But it runs in a child that can be killed
// (mounter/process/child_call.h says how it is confined). It mounts in the scratch. Its flags stay,
// such as nosuid and nodev. The mount gets those of the request in addition, and moves to its target.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "mounter/mount/new_mount.h"
#include "mounter/mounter.h"

namespace mooring {

inline constexpr std::chrono::seconds kProgramPatience{60};

// Whether the kernel does not know the type, and a program for it is in /sbin, /sbin/fs.d or /sbin/fs.
bool NeedsMountProgram(const std::string& fs_type);

struct ProgramMount {
  NewMount mount;
  MountFlags flags;  // of the mount
};

// The program mounts the device with the number `number`, with the flags and options of the request. The mount has
// them, and the propagation. The filesystem is asked nothing: its server may not answer. FAILED_PRECONDITION: the
// program fails, or what it has mounted is not one filesystem, on this device or in user space. DEADLINE_EXCEEDED: it
// was killed after `limit`. The message holds its error output. After a failure nothing is mounted.
absl::StatusOr<ProgramMount> MakeMountByProgram(const MountRequest& request, const std::string& device, dev_t number,
                                                std::chrono::milliseconds limit = kProgramPatience);

}  // namespace mooring
