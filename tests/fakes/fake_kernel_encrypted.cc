// The encrypted volumes of FakeKernel.
#include "absl/status/status.h"
#include "base/status.h"
#include "tests/fakes/fake_kernel.h"

namespace mooring::testing {
namespace {

absl::Status NoHeader(const std::string& id) { return absl::DataLossError("there is no header of " + id); }

}  // namespace

absl::Status FakeKernel::MakeEncrypted(const NewEncryptedVolume& volume) {
  FakeEncrypted made = {.passphrase = volume.passphrase, .state = {.is_finished = true}};
  if (!volume.source.empty()) {
    const auto source = encrypted.find(volume.source);
    if (source == encrypted.end()) return NoHeader(volume.source);
    made = {.passphrase = source->second.passphrase, .state = source->second.state};
  }
  encrypted[volume.volume.id] = made;
  return absl::OkStatus();
}

absl::StatusOr<EncryptedState> FakeKernel::ReportEncrypted(const EncryptedVolume& volume) const {
  const auto found = encrypted.find(volume.id);
  return found == encrypted.end() ? absl::StatusOr<EncryptedState>(NoHeader(volume.id)) : found->second.state;
}

absl::StatusOr<EncryptedState> FakeKernel::OpenEncrypted(const OpenRequest& request) {
  const auto found = encrypted.find(request.volume.id);
  if (found == encrypted.end()) return NoHeader(request.volume.id);
  if (found->second.passphrase != request.passphrase) return absl::UnauthenticatedError("the passphrase is wrong");
  found->second.is_open = true;
  return found->second.state;
}

absl::Status FakeKernel::CloseEncrypted(const std::string& id) {
  if (const auto found = encrypted.find(id); found != encrypted.end()) found->second.is_open = false;
  return absl::OkStatus();
}

absl::Status FakeKernel::NoteRawEncrypted(const EncryptedVolume& volume) {
  const auto found = encrypted.find(volume.id);
  if (found == encrypted.end()) return NoHeader(volume.id);
  found->second.state.is_raw = true;
  return absl::OkStatus();
}

}  // namespace mooring::testing
