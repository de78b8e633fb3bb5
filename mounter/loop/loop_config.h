// Binds loop devices to their files, with or without direct I/O.
#pragma once

#include <linux/loop.h>

#include <cstdint>
#include <string>

namespace mooring {

struct LoopSpec {
  std::string label;  // at most 63 bytes
  bool read_only = false;
  bool auto_clear = false;       // a new device goes when its last user closes it
  bool raw = false;              // for tasks: mounter/loop/raw_device.h
  std::uint64_t size_limit = 0;  // bytes that the device shows; 0: all
};

std::string LabelIn(const loop_info64& status);
void SetLabel(loop_info64& status, const std::string& label);

// Whether the loop device of this open file may use direct I/O, which avoids a second copy of every page.
//
// A loop device writes pages that may change meanwhile. A filesystem that keeps a checksum of each
// page then has one that does not fit, and the data cannot be read any more. So direct I/O needs a filesystem that is
// known to write pages as they are:
//
//   a block device           yes
//   ext4, xfs                yes: they have checksums of metadata only
//   NFS, CephFS, GFS2        yes: no checksum is kept
//   btrfs                    only for files without checksums (chattr +C)
//   overlay                  no: it takes the flag, and over tmpfs (Linux 6.1) every read fails
//   all others               no
bool MayUseDirectIo(int file);

// LOOP_CONFIGURE. Returns 0 or the errno. EBUSY: another process took the device.
int ConfigureLoop(int loop, int file, const LoopSpec& spec);

}  // namespace mooring
