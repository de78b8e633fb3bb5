// The arguments and results of the controller's calls, as plain values: controller_requests.h and snapshot_requests.h
// parse requests into them, and VolumeCatalog and SnapshotCatalog execute them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mounter/mounter.h"
#include "plugin/model/backend_traits.h"
#include "plugin/model/capability.h"
#include "plugin/model/volume_size.h"
#include "plugin/model/volume_tuning.h"

namespace mooring {

using Segments = std::map<std::string, std::string>;  // of one topology

// The content of a new volume.
struct ContentSource {
  enum class Kind { kNone, kSnapshot, kVolume };  // kNone: empty
  Kind kind = Kind::kNone;
  std::string id = {};

  bool exists() const { return kind != Kind::kNone; }
};

// The key of a CreateVolume parameter: CreateVolumeSpec::allows_conversion.
inline constexpr std::string_view kConversionKey = "allowVolumeModeConversion";

struct CreateVolumeSpec {
  std::string name;
  SizeRange range;
  std::uint64_t minimum_bytes = 0;                        // which the capabilities need
  std::string fs_type;                                    // also of block volumes; empty: that of the source
  std::optional<Propagation> propagation = std::nullopt;  // of its targets; none: the plugin's default
  std::string pool = std::string(kDefaultPool);           // empty: that of the source
  std::vector<Segments> topologies;                       // it must be reachable from one of them; empty: from anywhere
  ContentSource source = {};
  std::string device = {};  // VolumeDraft::device
  bool is_raw = false;      // it may be used as a raw device
  bool is_mounted = true;   // it may be mounted: a copy gets a new filesystem UUID then
  TuningChange tuning = {};
  std::string ephemeral = {};  // the id from the orchestrator; empty: not ephemeral
  // All its capabilities ask for block access, and its parameters do not allow mount access later. Neither the volume
  // nor a copy of it is ever mounted as a filesystem, because its user can write any superblock.
  bool block_only = false;
  bool allows_conversion = false;  // parameter allowVolumeModeConversion
  VolumeMaking making = {};
  std::string idmap = {};                        // VolumeTuning::idmap
  std::string sub_dir = {};                      // VolumeTuning::sub_dir
  std::optional<bool> encrypted = std::nullopt;  // its pool must encrypt, or must not; none: either
  std::string passphrase = {};  // of the call's secrets, for an encrypted volume; empty: they have none
};

struct ModifySpec {
  std::string volume_id;
  TuningChange change;
};

struct ControllerPublishSpec {
  std::string volume_id;
  std::string node_id;
  Capability capability;
  bool read_only = false;
};

struct ControllerUnpublishSpec {
  std::string volume_id;
  std::string node_id;  // empty: all nodes
};

struct ControllerExpandSpec {
  std::string volume_id;
  SizeRange range;
};

// A page of a list.
struct PageSpec {
  std::int64_t after = 0;       // the seq of the last entry of the previous page
  std::size_t max_entries = 0;  // 0: all
};

struct CapacitySpec {
  bool possible = true;             // false: such a volume is impossible
  std::uint64_t minimum_bytes = 0;  // which the capabilities need
  Segments topology;                // empty: anywhere
  std::string pool = std::string(kDefaultPool);
};

struct CreateSnapshotSpec {
  std::string name;
  std::string source_volume_id;
};

struct ListSnapshotsSpec {
  std::int64_t after = 0;             // the seq of the last snapshot of the previous page
  std::size_t max_entries = 0;        // 0: all
  std::string snapshot_id = {};       // empty: any
  std::string source_volume_id = {};  // empty: any
};

struct CreateGroupSpec {
  std::string name;
  std::vector<std::string> source_volume_ids;  // each once
};

struct GroupSpec {
  std::string id;
  std::vector<std::string> snapshot_ids;  // its members; empty: the call names none
};

struct CapacityInfo {
  std::uint64_t available = 0;
  std::uint64_t largest = 0;
  std::uint64_t smallest = 0;
};

}  // namespace mooring
