// The secrets of requests. They are never logged, and no message has one.
#pragma once

#include <string_view>

namespace mooring {

// CreateVolume, NodeStageVolume and NodePublishVolume take it: 1 to kLongestPassphrase bytes
// (mounter/encrypted_volumes.h).
inline constexpr std::string_view kPassphraseSecret = "encryptionPassphrase";

}  // namespace mooring
