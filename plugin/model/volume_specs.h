// The arguments and results of the controller's calls, as plain values: controller_requests.h parses requests into
// them, and VolumeCatalog executes them.
#ifndef MOORING_PLUGIN_MODEL_VOLUME_SPECS_H_
#define MOORING_PLUGIN_MODEL_VOLUME_SPECS_H_

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
  bool is_mounted = true;   // it may be mounted: a copy gets a new filesystem UUID then
  TuningChange tuning = {};
  std::string ephemeral = {};  // the id from the orchestrator; empty: not ephemeral
  // All its capabilities ask for block access, and its parameters do not allow mount access later. Neither the volume
  // nor a copy of it is ever mounted as a filesystem, because its user can write any superblock.
  bool block_only = false;
  bool allows_conversion = false;  // parameter allowVolumeModeConversion
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

struct ListVolumesSpec {
  std::int64_t after = 0;       // the seq of the last volume of the previous page
  std::size_t max_entries = 0;  // 0: all
};

struct CapacitySpec {
  bool possible = true;             // false: such a volume is impossible
  std::uint64_t minimum_bytes = 0;  // which the capabilities need
  Segments topology;                // empty: anywhere
  std::string pool = std::string(kDefaultPool);
};

struct VolumeInfo {
  std::string id;
  std::uint64_t bytes = 0;
  std::string fs_type;
  std::optional<Propagation> propagation = std::nullopt;
  std::string pool = std::string(kDefaultPool);
  std::string source = {};  // the id of the snapshot or volume that it was created from; empty: none
  std::vector<std::string> published_nodes = {};
  BackendKind kind = BackendKind::kImage;
  bool block_only = false;        // CreateVolumeSpec::block_only
  std::string problem = {};       // a sentence about its image or pool; empty: healthy. Set by Get and List
  std::uint64_t asked_bytes = 0;  // VolumeRecord::asked_bytes: `bytes` may be more, by rounding or for the filesystem
};

struct VolumePage {
  std::vector<VolumeInfo> volumes;
  std::optional<std::int64_t> next;  // `after` of the next page; none: this is the last page
};

struct CapacityInfo {
  std::uint64_t available = 0;
  std::uint64_t largest = 0;
  std::uint64_t smallest = 0;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_VOLUME_SPECS_H_
