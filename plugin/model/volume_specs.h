// What the controller's calls ask for and get, as plain values: controller_requests.h makes the specs of requests,
// VolumeCatalog acts on them.
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

// What a new volume is to hold.
struct ContentSource {
  enum class Kind { kNone, kSnapshot, kVolume };  // kNone: nothing
  Kind kind = Kind::kNone;
  std::string id = {};

  bool exists() const { return kind != Kind::kNone; }
};

// The key of a CreateVolume parameter: CreateVolumeSpec::allows_conversion.
inline constexpr std::string_view kConversionKey = "allowVolumeModeConversion";

struct CreateVolumeSpec {
  std::string name;
  SizeRange range;
  std::uint64_t minimum_bytes = 0;  // that its capabilities need
  std::string fs_type;  // also of a volume that is to be a block device; empty, with a source alone: the source's
  std::optional<Propagation> propagation = std::nullopt;  // of its targets; none: the plugin's, whatever it is then
  std::string pool = std::string(kDefaultPool);           // empty, with a source alone: the source's
  std::vector<Segments> topologies;                       // it must be reachable from one of them; none: from anywhere
  ContentSource source = {};
  std::string device = {};  // VolumeDraft::device
  bool is_mounted = true;   // it is to be a filesystem, too: then a copy of one gets an identity of its own
  TuningChange tuning = {};
  std::string ephemeral = {};  // the id that an orchestrator has given it; empty: an ordinary volume
  // All its capabilities ask for block access, and its parameters do not allow another one later. Such a volume is
  // never mounted as a filesystem, nor is a copy of it: whoever has it writes every byte of it, superblocks included.
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
  std::int64_t after = 0;       // the place of the last volume of the page before
  std::size_t max_entries = 0;  // 0: all
};

struct CapacitySpec {
  bool possible = true;             // false: such a volume could never be made
  std::uint64_t minimum_bytes = 0;  // that the capabilities need
  Segments topology;                // empty: anywhere
  std::string pool = std::string(kDefaultPool);
};

struct VolumeInfo {
  std::string id;
  std::uint64_t bytes = 0;
  std::string fs_type;
  std::optional<Propagation> propagation = std::nullopt;
  std::string pool = std::string(kDefaultPool);
  std::string source = {};  // the id of the snapshot or volume that it was made from; empty: none
  std::vector<std::string> published_nodes = {};
  BackendKind kind = BackendKind::kImage;
  bool block_only = false;        // CreateVolumeSpec::block_only
  std::string ailment = {};       // of what it lies in, a sentence; empty: well. Set by Get and List
  std::uint64_t asked_bytes = 0;  // that were asked for: it may have more, by rounding or by its filesystem's minimum
};

struct VolumePage {
  std::vector<VolumeInfo> volumes;
  std::optional<std::int64_t> next;  // `after` of the next page, where there is one
};

struct CapacityInfo {
  std::uint64_t available = 0;
  std::uint64_t largest = 0;
  std::uint64_t smallest = 0;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_VOLUME_SPECS_H_
