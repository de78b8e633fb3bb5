// The part of the interface of mounter/ for encryption: LUKS2. mounter/mounter.h has the rules for all its parts.
//
// The carrier of an encrypted volume is an image file or a block device. It begins with a header of kEncryptionHeader
// bytes, and the ciphertext follows. An open volume has a mapping, which shows its content:
//
//   carrier ◀── loop device, if it is a file ◀── /dev/mapper/<MappingName>
//
// The UUID of the header follows from the id of the volume (mounter/path/mapping_names.h). A carrier with another
// header, or with none, is never formatted: DATA_LOSS. No call prints a passphrase or hands it to a program in its
// arguments or environment.
//
// FAILED_PRECONDITION: cryptsetup is not installed. UNAUTHENTICATED: the passphrase is not that of the volume.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

inline constexpr std::uint64_t kEncryptionHeader = 16U << 20U;  // bytes
inline constexpr std::uint64_t kEncryptionSector = 4096;        // bytes; the content has whole ones

inline constexpr std::size_t kLongestPassphrase = 512;  // bytes

struct EncryptedVolume {
  std::string carrier;  // its path
  std::string id;       // of the volume or snapshot
};

struct NewEncryptedVolume {
  EncryptedVolume volume;
  std::string passphrase;
  std::string label = {};          // of the loop device, as in OpenRequest
  std::string source = {};         // an id: the carrier is a copy of that volume's or snapshot's; empty: it is new
  std::string renew_fs_type = {};  // of a copy: the type of the filesystem that gets a new UUID; empty: none does
};

struct EncryptedState {
  bool is_finished = false;  // MakeEncrypted has ended
  bool is_raw = false;       // a task had it as a raw device, or it is a copy of such a volume
};

struct OpenRequest {
  EncryptedVolume volume;
  std::string passphrase;
  std::string label;  // of the loop device, at most 63 bytes
};

class EncryptedVolumes {
 public:
  virtual ~EncryptedVolumes() = default;

  // Writes the header of a volume that nobody has used, over its own of an interrupted call, and clears what would look
  // like a filesystem. A copy has a header, whose UUID is changed. The passphrase is not needed for a copy whose
  // filesystem keeps its UUID. FAILED_PRECONDITION: the volume is open. DATA_LOSS: there is the header of another
  // volume; or the copy has not the header of its source.
  virtual absl::Status MakeEncrypted(const NewEncryptedVolume& volume) = 0;

  // It needs no passphrase.
  virtual absl::StatusOr<EncryptedState> ReportEncrypted(const EncryptedVolume& volume) = 0;

  // Gives the volume its mapping, and checks the passphrase in any case. OK if it is open. The mapping stays until
  // CloseEncrypted. ABORTED: the mapping is going at this moment.
  virtual absl::StatusOr<EncryptedState> OpenEncrypted(const OpenRequest& request) = 0;

  // The mapping and its loop device go now, or with their last user. OK if it is not open.
  virtual absl::Status CloseEncrypted(const std::string& id) = 0;

  // Adopts the size of the carrier; the loop device has adopted it before. NOT_FOUND: it is not open.
  virtual absl::Status ResizeEncrypted(const std::string& id) = 0;

  // EncryptedState::is_raw from now on.
  virtual absl::Status NoteRawEncrypted(const EncryptedVolume& volume) = 0;
};

}  // namespace mooring
