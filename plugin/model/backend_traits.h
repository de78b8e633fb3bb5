// The kinds of backends, and the abilities by which the rest of the plugin treats their volumes. The registry
// (plugin/backends/registry.h) gives each kind its abilities. docs/backends.md explains them to users.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace mooring {

// The pool of volumes for which CreateVolume names none.
inline constexpr std::string_view kDefaultPool = "default";

// The record's filesystem of a btrfs subvolume. "btrfs" is that of an image or a device.
inline constexpr std::string_view kSubvolumeFsType = "subvolume";

enum class BackendKind {
  kImage,      // an image file and a loop device
  kDirectory,  // a directory, bind mounted
  kDevice,     // an existing block device
  kTmpfs,      // memory, from the first stage to the last unstage
  kBtrfs,      // a subvolume of a btrfs
  kNfs,        // a directory on an NFS export, bind mounted
  kLvm,        // a logical volume
  kLuks,       // an image file that is encrypted, and its mapping
};
inline constexpr BackendKind kBackendKinds[] = {BackendKind::kImage, BackendKind::kDirectory, BackendKind::kDevice,
                                                BackendKind::kTmpfs, BackendKind::kBtrfs,     BackendKind::kNfs,
                                                BackendKind::kLvm,   BackendKind::kLuks};

// How the node mounts a volume.
enum class Staging {
  kLoopDevice,   // VolumeLocation::path is an image: its loop device is mounted
  kBlockDevice,  // VolumeLocation::path is a device with its own filesystem: it is mounted
  kDirectory,    // VolumeLocation::path is a directory: it is bound
  kMemory,       // there is no path: a tmpfs of the volume's size is mounted
};

// The side that creates staging directories and unstages volumes.
enum class StagingBy {
  kOrchestrator,  // as CSI 1.12 says: it creates the directory before Stage, and calls Unstage
  kPlugin,        // Stage creates a missing directory, and the end of the last target unstages the volume
};

// docs/backends.md has a table of the abilities: change both.
struct BackendTraits {
  std::string_view name;  // "image": in --pool, in messages, and the label `backend` of the metrics
  Staging staging = Staging::kDirectory;
  bool block = false;                      // raw block volumes
  bool snapshots = false;                  // single and in groups
  bool snapshot_blocks = false;            // the allocated and changed blocks of snapshots
  bool clones = false;                     // volumes from snapshots, and from volumes
  bool clones_unused = false;              // a copy is not of one instant, so nobody may use its source
  bool grows = false;                      // ControllerExpandVolume
  bool enforces_size = false;              // a volume cannot hold more than its size
  bool tunes = false;                      // the mutable parameters of a device
  std::vector<std::string> fs_types = {};  // from which a volume can choose; empty: there is no choice
  bool whole_devices = false;              // a volume has the size of its device, and can name the device
  bool many_nodes = false;                 // a volume can be used on several nodes at once
  bool sets_aside = false;                 // it can have a name, and keep its data: Backend::SetName, SetAside
  bool maps_ids = true;                    // the kernel may have mapped ids for its filesystems: VolumeTuning::idmap
  bool reuses_space = false;               // unwritten space may hold what deleted volumes held
  bool takes_size_at_once = false;         // a volume uses its whole size, also before it is written
  bool encrypted = false;                  // the node opens a volume before it stages it
};

// A device that a volume had when it was last seen in this boot.
struct KnownDevice {
  std::string volume_id;
  dev_t number = 0;
  std::string node;         // "/dev/sdb"
  bool is_mapping = false;  // of an encrypted volume, perhaps of another node of this kernel
};

}  // namespace mooring
