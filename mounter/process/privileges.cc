#include "mounter/process/privileges.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <type_traits>

#include "base/status.h"

namespace mooring {
namespace {

struct FreeCapabilities {
  void operator()(cap_t set) const { ::cap_free(set); }
};
using Capabilities = std::unique_ptr<std::remove_pointer_t<cap_t>, FreeCapabilities>;

void Set(const Capabilities& set, cap_flag_t flag, int capability, cap_flag_value_t value) {
  const cap_value_t one = capability;
  ::cap_set_flag(set.get(), flag, 1, &one, value);
}

bool Has(const Capabilities& set, int capability) {
  cap_flag_value_t value = CAP_CLEAR;
  return ::cap_get_flag(set.get(), capability, CAP_PERMITTED, &value) == 0 && value == CAP_SET;
}

}  // namespace

const std::vector<Privilege>& HelperPrivileges() {
  static const std::vector<Privilege> privileges = {
      {CAP_SYS_ADMIN, "mounts, loop devices, freezing a filesystem, statmount(2)"},
      {CAP_SYS_RESOURCE, "growing a mounted ext4"},
      {CAP_CHOWN, "giving a volume's root directory to its owner or a group, and a new image to its pool's owner"},
      {CAP_FOWNER, "making a volume's root directory writable for a group"},
      {CAP_FSETID, "setting the group bit there"},
      {CAP_DAC_OVERRIDE, "targets in directories that root does not own"},
      {CAP_SETFCAP, "the capabilities of files in a clone of a directory"},
      {CAP_MKNOD, "the node of a new loop device in a container's /dev"},
      {CAP_SETUID, "the user namespace of mapped ids: its map of users"},
      {CAP_SETGID, "the same: its map of groups"},
  };
  return privileges;
}

void DropFromBoundingSet(const std::vector<int>& keep) {
  for (int capability = 0; CAP_IS_SUPPORTED(capability); ++capability) {
    if (std::find(keep.begin(), keep.end(), capability) == keep.end()) ::cap_drop_bound(capability);
  }
}

absl::Status GiveUp(const std::vector<int>& capabilities) {
  const Capabilities set(::cap_get_proc());
  if (set == nullptr) return ErrnoStatus(errno, "read the capabilities of this process");
  for (const int capability : capabilities) {
    for (const cap_flag_t flag : {CAP_INHERITABLE, CAP_PERMITTED, CAP_EFFECTIVE}) Set(set, flag, capability, CAP_CLEAR);
  }
  if (::cap_set_proc(set.get()) != 0) return ErrnoStatus(errno, "give up capabilities");
  return absl::OkStatus();
}

absl::Status KeepOnly(const std::vector<int>& capabilities) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoStatus(errno, "set no_new_privs");
  const Capabilities had(::cap_get_proc());
  if (had == nullptr) return ErrnoStatus(errno, "read the capabilities of this process");
  DropFromBoundingSet(capabilities);
  const Capabilities wanted(::cap_init());
  if (wanted == nullptr) return ErrnoStatus(errno, "make a set of capabilities");
  for (const int capability : capabilities) {
    if (!Has(had, capability)) continue;
    for (const cap_flag_t flag : {CAP_PERMITTED, CAP_EFFECTIVE}) Set(wanted, flag, capability, CAP_SET);
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (::cap_set_proc(wanted.get()) != 0) return ErrnoStatus(errno, "give up capabilities");
  return absl::OkStatus();
}

}  // namespace mooring
