// Brings the devices and the filesystem of a volume to the volume's size (CSI 1.12, NodeExpandVolume).
//
// It keeps no state. NodeVolumes calls it, and holds the locks of the volume and of the path. NOT_FOUND: the volume is
// not at the path. OUT_OF_RANGE: the volume itself has another size than is asked for. A failed growth has one of the
// codes that CSI allows.
#ifndef MOORING_PLUGIN_NODE_VOLUME_EXPANDER_H_
#define MOORING_PLUGIN_NODE_VOLUME_EXPANDER_H_

#include <cstdint>
#include <string>

#include "plugin/node/uses/volume_devices.h"
#include "plugin/node/uses/volume_finder.h"

namespace mooring {

struct ExpandSpec {
  std::string volume_id;
  std::string volume_path;
  std::uint64_t required_bytes = 0;  // 0: the size of the volume
  std::uint64_t limit_bytes = 0;     // 0: none
};

class VolumeExpander {
 public:
  VolumeExpander(Mounter& mounter, VolumeFinder& finder, VolumeDevices& devices)
      : mounter_(mounter), finder_(finder), devices_(devices) {}

  absl::Status Expand(const ExpandSpec& spec, const NodeVolume& volume);

 private:
  Mounter& mounter_;
  VolumeFinder& finder_;
  VolumeDevices& devices_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_VOLUME_EXPANDER_H_
