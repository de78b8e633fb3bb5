#include <string>

#include "mounter/encryption/volume_calls.h"
#include "mounter/kernel/kernel_mounter.h"

namespace mooring {

absl::Status KernelMounter::MakeEncrypted(const NewEncryptedVolume& volume) {
  return MakeEncryptedVolume(volume, sources_);
}

absl::StatusOr<EncryptedState> KernelMounter::ReportEncrypted(const EncryptedVolume& volume) {
  return ReportEncryptedVolume(volume, sources_);
}

absl::StatusOr<EncryptedState> KernelMounter::OpenEncrypted(const OpenRequest& request) {
  return OpenEncryptedVolume(request, sources_);
}

absl::Status KernelMounter::CloseEncrypted(const std::string& id) { return CloseEncryptedVolume(id); }

absl::Status KernelMounter::ResizeEncrypted(const std::string& id) { return ResizeEncryptedVolume(id); }

absl::Status KernelMounter::NoteRawEncrypted(const EncryptedVolume& volume) {
  return NoteRawEncryptedVolume(volume, sources_);
}

}  // namespace mooring
