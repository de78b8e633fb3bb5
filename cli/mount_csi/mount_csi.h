// mount.csi and umount.csi: links to `mooring` that mount(8) and umount(8) call as helpers for the type "csi".
//
//   /etc/fstab:  csi:db  /srv/db  csi  access=single-node-writer,propagation=rslave,_netdev,nofail  0 0
//
//   mount(8) ─▶ mount.csi csi:db /srv/db -o … ─▶ Attach at the manager ─▶ an entry in utab (helper=csi)
//   umount(8) ─ finds that entry ─▶ umount.csi /srv/db ─▶ Detach ─▶ the entry goes
//
// A plain "db" works, too, but mount(8) turns it into a path if the working directory contains a file of that name.
#pragma once

#include <string_view>

#include "cli/command/area.h"

namespace mooring::cli::mount_csi {

// Exit statuses of mount(8).
inline constexpr int kUsage = 1;
inline constexpr int kNoTable = 16;  // done, but libmount's table could not be written
inline constexpr int kFailed = 32;

// The helper for the name by which the program was called.
using Helper = int (*)(int argc, const char* const* argv, const Streams& streams);
Helper HelperNamed(std::string_view argv0);  // null unless the name is mount.csi or umount.csi

int Mount(int argc, const char* const* argv, const Streams& streams);
int Unmount(int argc, const char* const* argv, const Streams& streams);

}  // namespace mooring::cli::mount_csi
