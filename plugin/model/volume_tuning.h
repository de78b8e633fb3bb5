// The settings of a volume. These can change while it is in use, the mutable parameters of CSI:
//
//   readAhead   the read-ahead of its loop device
//   noatime     its mounts have noatime, whatever their mount flags are
//
// VolumeMaking, `idmap` and `sub_dir` never change.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/format_options.h"
#include "mounter/mount_options.h"
#include "mounter/mounter.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

// The fate of the data of a deleted volume, in the words of csi-driver-nfs.
enum class OnDelete { kDelete, kRetain, kArchive };

// The properties that a volume gets once: parameters of CreateVolume.
//
//   uid, gid, mode     of its root directory, when it is first mounted
//   inodeSize, …       options of mkfs (mounter/format_options.h)
//   onDelete           OnDelete
struct VolumeMaking {
  NewRoot root = {};
  FormatOptions format = {};
  OnDelete on_delete = OnDelete::kDelete;

  bool operator==(const VolumeMaking&) const = default;
};

// False: the key is none of these parameters. INVALID_ARGUMENT names the key, and says which values it takes.
absl::StatusOr<bool> SetMaking(const std::string& key, const std::string& value, VolumeMaking& making);

// INVALID_ARGUMENT: the filesystem does not take the options.
absl::Status CheckMaking(const VolumeMaking& making, std::string_view fs_type);

std::string MakingKeys();  // "uid, gid, mode, onDelete, inodeSize, …", for messages

// "uid=1000 mode=0750 inodeSize=512", for records and messages; empty: all defaults.
std::string ToText(const VolumeMaking& making);
std::string MakingText(const VolumeMaking& making);  // for messages: ToText, or "the default owner and format"

struct VolumeTuning {
  std::uint64_t read_ahead_bytes = 0;  // 0: the kernel's default
  bool noatime = false;
  VolumeMaking making = {};
  std::string idmap = {};    // of its mounts at targets: mounter/id_mappings.h; empty: none
  std::string sub_dir = {};  // a name of its directory, in its pool: Backend::SetName; empty: none

  bool operator==(const VolumeTuning&) const = default;
};

// Letters, digits, '-', '_' and '.', at most 128, and none of the names that the backends give. So it is a word of
// records, and a path below no other directory.
bool IsSubDir(std::string_view name);

// The name that the directory of a deleted volume keeps: "retained-ID" or its `sub_dir`, "archived-ID" or
// "archived-SUBDIR". Empty: it is deleted.
std::string KeptName(const std::string& id, const VolumeTuning& tuning);

// The settings that a request names; the others stay.
struct TuningChange {
  std::optional<std::uint64_t> read_ahead_bytes = std::nullopt;
  std::optional<bool> noatime = std::nullopt;
};

// INVALID_ARGUMENT: a key is unknown, or its value is wrong; the error names the key.
absl::StatusOr<TuningChange> ParseTuning(const std::map<std::string, std::string>& mutable_parameters);

VolumeTuning With(VolumeTuning tuning, const TuningChange& change);

// INVALID_ARGUMENT: volumes of this kind do not have the setting.
absl::Status CheckPossible(const TuningChange& change, const BackendTraits& traits);

// The text for records; empty: all defaults. TuningIn skips unknown words.
std::string ToText(const VolumeTuning& tuning);
VolumeTuning TuningIn(const std::string& text);

// The flags of a mount of the volume, for the requested flags `asked`.
MountFlags Tuned(MountFlags asked, const VolumeTuning& tuning);

}  // namespace mooring
