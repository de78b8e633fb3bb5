// The contract between a kind of backend and the rest of the plugin: each folder plugin/backends/<kind>/ provides one
// BackendType, and plugin/backends/registry.cc lists them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/file/path.h"
#include "base/file/real_directory.h"
#include "mounter/mounter.h"
#include "plugin/backends/interface/availability.h"
#include "plugin/backends/interface/backend.h"
#include "plugin/model/backend_traits.h"

namespace mooring {

// In the directory of a shared pool: its records and locks (plugin/process/shared_pools.h).
inline constexpr std::string_view kSharedRecords = "/.mooring";

// A pool as --pool describes it.
struct PoolConfig {
  std::string name;
  BackendKind kind = BackendKind::kImage;
  std::string path = {};                             // absolute and normalised; empty: in the state directory
  std::uint64_t bytes = 0;                           // `size`; 0: not given
  std::optional<double> overcommit = std::nullopt;   // Pool::overcommit
  bool shared = false;                               // several hosts mount the directory, and have this pool
  std::map<std::string, std::string> own_keys = {};  // keys that only this kind of backend has
  std::string away = {};  // set by the start: why the pool is UNAVAILABLE until the next start
};

// The mounts that the plugin makes before it uses a pool. The requests lack the option `addr`, the server's address.
struct OwnMount {
  std::string server;
  MountRequest request;  // for tasks: what they write is never lost, however long the server is away
  MountRequest calls;    // for the files and calls of the plugin: each wait for the server ends with an error
};

// The target of OwnMount::calls. A process that has a file of the other mount open cannot end without the server.
inline std::string PlaceForCalls(const std::string& path) {
  return std::string(ParentOf(path)) + "/." + std::string(NameOf(path));
}

// The arguments for building a backend.
struct BackendParts {
  Mounter& mounter;  // outlives the backend
  IfMissing if_missing = IfMissing::kMake;
  mode_t new_directory_mode = 0755;
  std::shared_ptr<const Availability> availability = nullptr;  // with BackendType::own_mount
};

// The parts of the host that the plugin and its mount helper may use for the pools.
struct PoolAccess {
  std::vector<std::string> image_directories;   // their images may become loop devices
  std::vector<std::string> volume_directories;  // the directories in them may be bound
  std::vector<std::string> subvolume_pools;     // the btrfs subvolumes in them may be made, limited and removed
  std::vector<std::string> sized_pools;         // the directories in them may get a limit
  std::vector<std::string> lvm_pools;           // "GROUP" or "GROUP/THINPOOL": volumes in them may be made and removed
  std::vector<std::string> encrypted_pools;     // directories: the images in them may be encrypted and opened
  std::vector<std::string> link_directories;    // they are read for links to devices
  std::vector<std::string> device_links;        // LinksText: the devices behind these links may be mounted
  std::vector<std::string> key_files;           // may be read, with all files beside and below them
  std::uint64_t most_memory = 0;                // bytes of a tmpfs
};

struct BackendType {
  BackendTraits traits;

  // Changes the abilities that depend on the keys of a pool.
  void (*adapt)(const PoolConfig& pool, BackendTraits& traits) = [](const PoolConfig&, BackendTraits&) {};

  // The keys of --pool besides `name` and `backend`.
  std::vector<std::string_view> pool_keys;

  // Checks the keys and sets the defaults of missing ones. INVALID_ARGUMENT: the reason alone.
  absl::Status (*complete)(PoolConfig& pool);

  bool owns_path = false;    // the plugin creates the directory `path`, which lies apart from those of other pools
  bool tasks_files = false;  // the files below `path` belong to tasks, not to the plugin

  // Not null: the plugin makes this mount at `path`, in a directory that it chooses (plugin/process/export_pools.h).
  OwnMount (*own_mount)(const PoolConfig& pool) = nullptr;

  // Checks the host at the start, before anything is created. `is_first_start`: the plugin has no catalog yet.
  // UNAVAILABLE: the pool is not there now, which does not stop the others.
  absl::Status (*check_host)(const PoolConfig& pool, bool is_first_start) = [](const PoolConfig&, bool) {
    return absl::OkStatus();
  };

  // The directory with an entry for each volume: its id and `entry_suffix`. `make` gets it. The plugin does not start
  // with a new catalogue if it has entries.
  std::string (*directory)(const PoolConfig& pool, const std::string& state_dir) =
      [](const PoolConfig& pool, const std::string& /*state_dir*/) { return pool.path; };
  std::string_view entry_suffix = "";

  std::unique_ptr<Backend> (*make)(const PoolConfig& pool, const std::string& directory, const BackendParts& parts);

  // Adds what the pool needs.
  void (*allow)(const PoolConfig& pool, PoolAccess& access);
};

}  // namespace mooring
