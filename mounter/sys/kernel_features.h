// What this kernel, or a seccomp profile around this process, turns out to lack. Nothing is asked before a call has
// failed in a way that may mean it, so where all is there this costs an atomic load; what was found missing is
// remembered for the life of the process.
//
// A profile older than a system call answers EPERM, newer ones ENOSYS. EPERM may also be meant, so the call is repeated
// with arguments that the kernel refuses with EINVAL where it knows the call at all.
#ifndef MOORING_MOUNTER_SYS_KERNEL_FEATURES_H_
#define MOORING_MOUNTER_SYS_KERNEL_FEATURES_H_

namespace mooring {

enum class KernelFeature {
  kOpenAt2,   // Linux 5.6
  kMountApi,  // all of open_tree, move_mount, fsopen, fsconfig, fsmount (5.2) and mount_setattr (5.12)
};

// As far as it is known.
bool IsKnownMissing(KernelFeature feature);

// Asks the kernel, and remembers. errno is left as it was.
bool TurnsOutMissing(KernelFeature feature);

}  // namespace mooring

#endif  // MOORING_MOUNTER_SYS_KERNEL_FEATURES_H_
