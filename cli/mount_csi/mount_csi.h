// `mount -t csi` and its umount(8): helpers that mount(8) calls by their names, mount.csi and umount.csi, which are
// links to `mooring`.
//
//   /etc/fstab:  csi:db  /srv/db  csi  access=single-node-writer,propagation=rslave,_netdev,nofail  0 0
//
//   mount(8) ─▶ mount.csi csi:db /srv/db -o … ─▶ Attach at the manager ─▶ an entry in utab (helper=csi)
//   umount(8) ─ finds that entry ─▶ umount.csi /srv/db ─▶ Detach ─▶ the entry goes
//
// A plain "db" is taken, too, but mount(8) makes a path of it where there is a file of that name beside the caller.
#ifndef MOORING_CLI_MOUNT_CSI_MOUNT_CSI_H_
#define MOORING_CLI_MOUNT_CSI_MOUNT_CSI_H_

#include <string_view>

#include "cli/area.h"

namespace mooring::cli::mount_csi {

// Exit statuses of mount(8).
inline constexpr int kUsage = 1;
inline constexpr int kNoTable = 16;  // done, but not written into libmount's table
inline constexpr int kFailed = 32;

// Called as mount.csi or umount.csi? Then that is what runs, and not `mooring`.
using Helper = int (*)(int argc, const char* const* argv, const Streams& streams);
Helper HelperNamed(std::string_view argv0);  // null: neither

int Mount(int argc, const char* const* argv, const Streams& streams);
int Unmount(int argc, const char* const* argv, const Streams& streams);

}  // namespace mooring::cli::mount_csi

#endif  // MOORING_CLI_MOUNT_CSI_MOUNT_CSI_H_
