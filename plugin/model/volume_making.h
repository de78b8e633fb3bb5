// The properties that a volume gets once, when it is formatted or first mounted: parameters of CreateVolume.
//
//   uid, gid, mode     of its root directory
//   inodeSize, …       options of mkfs (mounter/format_options.h)
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/format_options.h"
#include "mounter/mounter.h"

namespace mooring {

struct VolumeMaking {
  NewRoot root = {};
  FormatOptions format = {};

  bool operator==(const VolumeMaking&) const = default;
};

// False: the key is none of these parameters. INVALID_ARGUMENT names the key, and says which values it takes.
absl::StatusOr<bool> SetMaking(const std::string& key, const std::string& value, VolumeMaking& making);

// INVALID_ARGUMENT: the filesystem does not take the options.
absl::Status CheckMaking(const VolumeMaking& making, std::string_view fs_type);

std::string MakingKeys();  // "uid, gid, mode, inodeSize, …", for messages

// "uid=1000 mode=0750 inodeSize=512", for records and messages; empty: all defaults.
std::string ToText(const VolumeMaking& making);
std::string MakingText(const VolumeMaking& making);  // for messages: ToText, or "the default owner and format"

}  // namespace mooring
