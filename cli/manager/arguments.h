// The arguments of the commands for the manager. A command reads the members that its flags (command.h) fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command/session.h"
#include "cli/manager/connection.h"
#include "manager.pb.h"

namespace mooring::cli::manager_area {

struct Arguments : SharedArguments {
  Arguments() { socket = kDefaultSocket; }

  bool quiet = false;
  bool if_exists = false;
  bool forget = false;

  // Plugins.
  std::string plugin;
  std::string exec;
  std::string image;
  std::vector<std::string> words;  // of the plugin's command line, after those of --exec
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
  std::string copy;  // the ID of the copy that is created
  std::string external_id;
  std::string snapshot;
  std::string file;
  manager::v1::Volume described;  // by `file` (volume_file.h)
  KeyValues context;

  // Claims and attachments.
  std::string allocation;
  std::string request;
  std::string mode;
  std::string external_node;
  std::string path;
  std::string propagation;
  bool force = false;
  std::optional<std::uint32_t> per_alloc;
  std::int32_t tasks = 0;
  bool system_job = false;

  // Hosts.
  std::string host;
  bool undo = false;

  // Events and changes.
  bool follow = false;
  std::int32_t from = 0;
  bool only_volumes = false;
  bool only_claims = false;
  std::int64_t from_revision = 0;
};

}  // namespace mooring::cli::manager_area
