// The calls of EncryptedVolumes (mounter/encrypted_volumes.h) on this host.
//
//   volume_calls      decides by the header and the mapping
//     luks_header     reads the header
//     cryptsetup      writes it, and makes the mapping
//     mapping         looks at the mapping, and removes it
//
// Each call but CloseEncryptedVolume and ResizeEncryptedVolume holds the lock of the carrier (mounter/image/image.h).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/encrypted_volumes.h"
#include "mounter/path/source_policy.h"

namespace mooring {

absl::Status MakeEncryptedVolume(const NewEncryptedVolume& volume, const SourcePolicy& sources);
absl::StatusOr<EncryptedState> ReportEncryptedVolume(const EncryptedVolume& volume, const SourcePolicy& sources);
absl::StatusOr<EncryptedState> OpenEncryptedVolume(const OpenRequest& request, const SourcePolicy& sources);
absl::Status CloseEncryptedVolume(const std::string& id);
absl::Status ResizeEncryptedVolume(const std::string& id);
absl::Status NoteRawEncryptedVolume(const EncryptedVolume& volume, const SourcePolicy& sources);

}  // namespace mooring
