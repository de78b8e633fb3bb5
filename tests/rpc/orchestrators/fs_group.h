// The fsGroup of a pod, applied as kubelet does it for a driver without VOLUME_MOUNT_GROUP.
#ifndef MOORING_TESTS_RPC_ORCHESTRATORS_FS_GROUP_H_
#define MOORING_TESTS_RPC_ORCHESTRATORS_FS_GROUP_H_

#include <sys/types.h>

#include <string>

namespace mooring::testing {

struct FsGroup {
  enum class ChangePolicy { kAlways, kOnRootMismatch };  // fsGroupChangePolicy
  gid_t group = 0;
  ChangePolicy policy = ChangePolicy::kAlways;
};

// Gives the root and all files in it to the group. Adds the mode bits 0660 to files and 02770 to directories, but not
// to symbolic links. With kOnRootMismatch nothing changes if the root already has this group and these bits.
void GiveToGroup(const std::string& root, const FsGroup& wanted);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_ORCHESTRATORS_FS_GROUP_H_
