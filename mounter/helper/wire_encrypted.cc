// The messages about encrypted volumes.
#include "base/status.h"
#include "mounter/helper/wire.h"

namespace mooring::wire {
namespace {

absl::Status CheckPassphrase(const std::string& passphrase) {
  if (passphrase.size() <= kLongestPassphrase) return absl::OkStatus();
  return InvalidArgument("a passphrase has {} bytes, more than {}", passphrase.size(), kLongestPassphrase);
}

}  // namespace

absl::StatusOr<EncryptedVolume> From(const pb::EncryptedVolume& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.carrier(), &message.id()}));
  return EncryptedVolume{.carrier = message.carrier(), .id = message.id()};
}

absl::StatusOr<NewEncryptedVolume> From(const pb::NewEncryptedVolume& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.label(), &message.source(), &message.renew_fs_type()}));
  MOORING_RETURN_IF_ERROR(CheckPassphrase(message.passphrase()));
  MOORING_ASSIGN_OR_RETURN(EncryptedVolume volume, From(message.volume()));
  return NewEncryptedVolume{.volume = std::move(volume),
                            .passphrase = message.passphrase(),
                            .label = message.label(),
                            .source = message.source(),
                            .renew_fs_type = message.renew_fs_type()};
}

absl::StatusOr<EncryptedState> From(const pb::EncryptedState& message) {
  return EncryptedState{.is_finished = message.is_finished(), .is_raw = message.is_raw()};
}

absl::StatusOr<OpenRequest> From(const pb::OpenRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.label()}));
  MOORING_RETURN_IF_ERROR(CheckPassphrase(message.passphrase()));
  MOORING_ASSIGN_OR_RETURN(EncryptedVolume volume, From(message.volume()));
  return OpenRequest{.volume = std::move(volume), .passphrase = message.passphrase(), .label = message.label()};
}

void To(const EncryptedVolume& volume, pb::EncryptedVolume& message) {
  message.set_carrier(volume.carrier);
  message.set_id(volume.id);
}

void To(const NewEncryptedVolume& volume, pb::NewEncryptedVolume& message) {
  To(volume.volume, *message.mutable_volume());
  message.set_passphrase(volume.passphrase);
  message.set_label(volume.label);
  message.set_source(volume.source);
  message.set_renew_fs_type(volume.renew_fs_type);
}

void To(const EncryptedState& state, pb::EncryptedState& message) {
  message.set_is_finished(state.is_finished);
  message.set_is_raw(state.is_raw);
}

void To(const OpenRequest& request, pb::OpenRequest& message) {
  To(request.volume, *message.mutable_volume());
  message.set_passphrase(request.passphrase);
  message.set_label(request.label);
}

}  // namespace mooring::wire
