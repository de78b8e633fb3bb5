// The binary part of a LUKS2 header, as the on-disk format 1.1 describes it (section 2.1, "Binary header").
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "mounter/encrypted_volumes.h"

namespace mooring {

// How the first copy begins, and the second: with the version 2, big-endian.
inline constexpr std::string_view kFirstMagic("LUKS\xba\xbe\0\x02", 8), kSecondMagic("SKUL\xba\xbe\0\x02", 8);

// The first copy of the header and the second. cryptsetup writes the first, its checksum, and then the second. After an
// interruption either may be in force, so a note holds if both copies have it.
struct LuksHeader {
  std::string uuid;
  EncryptedState state;         // finished: both say so; raw: one of them says so
  bool has_both_notes = false;  // of the raw use
  bool is_second_alone = false;
};

// The header of the open file, which Mooring has made. DATA_LOSS: there is none. `path` is for messages.
absl::StatusOr<LuksHeader> ReadLuksHeader(int file, const std::string& path);

// The note of Mooring in the field `subsystem`. Empty: MakeEncrypted has not ended.
std::string SubsystemFor(const EncryptedState& state);

}  // namespace mooring
