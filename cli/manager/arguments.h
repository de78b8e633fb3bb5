// Everything a command for the manager can be told. A command looks at what its flags (flags.h) fill in.
#ifndef MOORING_CLI_MANAGER_ARGUMENTS_H_
#define MOORING_CLI_MANAGER_ARGUMENTS_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/flags/flag_values.h"
#include "cli/flags/key_values.h"
#include "cli/flags/secrets.h"
#include "manager.pb.h"

namespace mooring::cli::manager_area {

struct Arguments {
  // Of every command.
  std::string socket = "/run/mooring/manager.sock";
  std::optional<Duration> timeout;  // else the command's
  bool json = false;
  bool quiet = false;
  bool show_time = false;
  bool verbose = false;

  // Plugins.
  std::string plugin;
  std::string exec;
  std::string image;
  std::vector<std::string> words;  // of the plugin's command line, behind what --exec has
  Secrets environment;
  std::string environment_file;
  std::string engine;
  std::vector<std::string> binds;
  std::string endpoint;
  std::string declared_by;
  std::optional<Duration> start_timeout;
  bool no_wait = false;

  // Volumes.
  std::string ns;
  bool all_namespaces = false;
  std::string id;    // of a volume, as people name it
  std::string copy;  // of the volume that is made from it
  std::string name;  // what the plugin is to call it; of a snapshot, too
  std::string external_id;
  std::string snapshot;
  std::string from_snapshot;
  std::string from_volume;
  std::string file;
  std::optional<Bytes> size;
  std::optional<Bytes> limit;
  std::vector<std::string> access;
  bool block = false;
  std::string fs_type;
  std::vector<std::string> mount_flags;
  KeyValues parameters;
  KeyValues context;
  std::vector<KeyValues> topologies;
  std::vector<KeyValues> preferred_topologies;
  Secrets secrets;
  std::string secrets_file;

  // Claims and attachments.
  std::string allocation;
  std::string request;
  std::string mode;
  std::string external_node;
  std::string path;
  std::string propagation;
  bool read_only = false;
  bool force = false;
  std::optional<std::uint32_t> per_alloc;
  std::int32_t tasks = 0;
  bool system_job = false;

  // Events.
  bool follow = false;
  std::int32_t from = 0;

  // Changes.
  bool only_volumes = false;
  bool only_claims = false;
  std::int64_t from_revision = 0;

  // What the file says, once it was read (volume_file.h).
  manager::v1::Volume described;
};

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_ARGUMENTS_H_
