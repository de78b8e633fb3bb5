// A copy of a LUKS2 header for cryptsetup, which nobody can change any more.
//
// The plugin can write an image at any time, and it is not trusted. A header says how much memory and time a passphrase
// takes, and which other programs give it. The name of a cipher can even say which device is mapped: "cipher_null-ecb -
// 0 /dev/sda 0 0". So cryptsetup reads a copy in memory that holds what Mooring's own headers hold, and key slots
// within limits. A damaged copy of the header is left out, and the other serves.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/image/image.h"

namespace mooring {

// FAILED_PRECONDITION: no copy of the header in the carrier is as Mooring's are. The error says why.
absl::StatusOr<UniqueFd> SealedHeader(const LockedImage& carrier);

// Where the keys of a header lie in its file. `json`: the text of the header (LUKS2 on-disk format 1.1, section 3).
// FAILED_PRECONDITION: it is not as Mooring's are.
struct KeyArea {
  std::uint64_t begin = 0, size = 0;  // bytes
};
absl::StatusOr<std::vector<KeyArea>> KeyAreasOf(std::string_view json);

}  // namespace mooring
