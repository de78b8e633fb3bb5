// Everything a `mooring csi` command can be told. A command looks at what its flags (flags.h) fill in.
#ifndef MOORING_CLI_CSI_ARGUMENTS_H_
#define MOORING_CLI_CSI_ARGUMENTS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/flag_values.h"
#include "cli/flags/key_values.h"
#include "cli/flags/secrets.h"

namespace mooring::cli::csi_area {

struct Arguments {
  // Of every command.
  std::string endpoint;
  Duration timeout{std::chrono::seconds(60)};
  bool json = false;
  bool show_time = false;
  bool verbose = false;

  std::string id;      // of a volume, a snapshot or a group snapshot, as the command says
  std::string name;    // of what is created
  std::string target;  // the id of the newer of two snapshots
  std::string node;

  std::string staging_path;
  std::string target_path;
  std::string volume_path;
  bool read_only = false;

  std::optional<Bytes> size;
  std::optional<Bytes> limit;
  std::optional<Bytes> offset;

  // The volume capability.
  std::vector<std::string> access;
  bool block = false;
  std::string fs_type;
  std::vector<std::string> mount_flags;
  std::string mount_group;

  KeyValues parameters;
  KeyValues mutable_parameters;
  KeyValues volume_context;
  KeyValues publish_context;
  std::vector<KeyValues> topologies;
  std::vector<KeyValues> preferred_topologies;
  Secrets secrets;
  std::string secrets_file;

  std::string from_snapshot;
  std::string from_volume;
  std::vector<std::string> volumes;
  std::vector<std::string> snapshots;

  std::int32_t max_entries = 0;
  std::string token;
  std::optional<Duration> wait;
  bool liveness = false;
};

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_ARGUMENTS_H_
