// Runs cryptsetup(8), one command for each call. It works on an open file, so nobody can exchange the path meanwhile.
// It always has these options:
//
//   --disable-locks     the caller has locked the image. On NFS the lock of cryptsetup would wait for that. Without
//                       its lock it uses the second copy of the header if the first is damaged, and mends none
//   --disable-keyring   the kernel has the key in the table of the mapping, which so grows without a passphrase
//
// The passphrase goes through a pipe, which is never swapped out. The derivation of the key is fixed: argon2id, 32 MiB,
// 4 passes. A benchmark could take 1 GB.
//
// FAILED_PRECONDITION: cryptsetup is not installed, or refuses. UNAUTHENTICATED: the passphrase is wrong.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/image/image.h"

namespace mooring {

class Cryptsetup {
 public:
  // `carrier` outlives this object.
  explicit Cryptsetup(const LockedImage& carrier) : carrier_(carrier) {}

  // Writes the header over whatever is there. Another header is in force only when it is complete.
  absl::Status Format(const std::string& uuid, const std::string& passphrase) const;

  absl::Status SetUuid(const std::string& uuid) const;
  absl::Status SetSubsystem(const std::string& subsystem) const;
  absl::Status CheckPassphrase(const std::string& passphrase) const;

  // `device`: the loop device over the carrier. `held`: an open file of it, which keeps it for the program.
  absl::Status Open(const std::string& device, const UniqueFd& held, const std::string& name,
                    const std::string& passphrase) const;

 private:
  const LockedImage& carrier_;
};

// To the size of the device below.
absl::Status ResizeByCryptsetup(const std::string& name);

}  // namespace mooring
