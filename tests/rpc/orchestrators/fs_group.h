// A pod's fsGroup, as kubelet applies it to a volume whose driver leaves that to kubelet.
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

// Gives the root and everything in it to the group: mode |= 0660, of directories |= 02770, symbolic links excepted.
// With kOnRootMismatch nothing is changed where the root already has this group and these bits.
void GiveToGroup(const std::string& root, const FsGroup& wanted);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_ORCHESTRATORS_FS_GROUP_H_
