// The superblocks of an ext4, "Ext4 Disk Layout" in the kernel's documentation: what is changed of them without
// e2fsprogs.
#ifndef MOORING_MOUNTER_EXT4_SUPER_H_
#define MOORING_MOUNTER_EXT4_SUPER_H_

#include <string>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace mooring {

// A new random UUID, and a new seed for the hashes of its directories: for one that nobody has written to yet. Its
// checksums have a seed of their own (metadata_csum_seed), so that no others hang on the UUID; else
// FAILED_PRECONDITION.
absl::Status RenewFreshExt4(const UniqueFd& file, const std::string& path);

}  // namespace mooring

#endif  // MOORING_MOUNTER_EXT4_SUPER_H_
