// Mounts through libmount, the library that mount(8) is made of.
#pragma once

#include <string>
#include <string_view>

#include "mounter/mounter.h"

namespace mooring {

// The input of a context of libmount. Its words are those of mount(8), with commas between them.
struct LibmountCall {
  std::string source = {};   // empty: a change of the mount at `target`
  std::string target = {};   // nobody else may exchange it: a place of the scratch, or "/proc/self/fd/N"
  std::string fs_type = {};  // empty if a mount is changed, "none" for a bind
  std::string words = {};    // "bind,nosuid,private"
};

// Returns 0, or the errno of the system call that failed. Then a mount may be at the target, without all its flags.
//
// libmount runs no helper, asks libblkid nothing, writes no table, and reads neither fstab nor the table of mounts.
// libmount 2.38.1 calls mount(2), and 2.41 the calls of the new mount API. Neither sets all flags of a bind exactly
// (mounter/README.md), so NewMount::Set or SetMountFlags follows. Neither tells why a filesystem refuses a mount: see
// ReasonOfRefusal in mounter/mount/filesystem_context.h.
int RunLibmount(const LibmountCall& call);

// Lets libmount run the program /sbin/mount.TYPE, as mount(8) does, with the arguments SOURCE TARGET -n -o WORDS. It is
// looked for in /sbin, /sbin/fs.d and /sbin/fs, and not in PATH. Returns its exit status; -1: it was killed, or did not
// start. It inherits the environment and the standard files, and libmount waits for it without a limit: call this in a
// child (mounter/process/child_call.h).
int RunMountProgram(const LibmountCall& call);

// Appends words to `words`, which may be empty.
void AddWords(std::string& words, std::string_view more);

// "private", or with `recursive` "rprivate"; empty for kInherit.
std::string PropagationWord(Propagation propagation, bool recursive);

// The options as words. A value with a comma gets double quotes, as a label of SELinux may have one.
std::string OptionWords(const std::vector<FilesystemOption>& options);

}  // namespace mooring
