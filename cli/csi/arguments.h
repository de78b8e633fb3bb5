// The arguments of `mooring csi`. A command reads the members that its flags (flags.h) fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command/session.h"

namespace mooring::cli::csi_area {

struct Arguments : SharedArguments {
  std::string target;  // the ID of the newer of two snapshots
  std::string node;
  std::string staging_path;
  std::string target_path;
  std::string volume_path;
  Offset offset;
  std::string mount_group;
  KeyValues mutable_parameters;
  KeyValues volume_context;
  KeyValues publish_context;
  std::vector<std::string> volumes;
  std::vector<std::string> snapshots;
  std::int32_t max_entries = 0;
  std::string token;
  std::optional<Duration> wait;
  bool liveness = false;
};

}  // namespace mooring::cli::csi_area
