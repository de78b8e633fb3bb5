#include "plugin/model/volume_source.h"

#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/model/volume_specs.h"

namespace mooring {

absl::Status CheckWhole(const std::string& whose, const std::string& path, std::uint64_t bytes,
                        std::uint64_t made_bytes) {
  if (bytes >= made_bytes) return absl::OkStatus();
  return FailedPrecondition("{} is cut short: its image {} has {} bytes of {}; restore it first", whose, Quote(path),
                            bytes, made_bytes);
}

absl::Status CheckWhole(const NodeVolume& volume) {
  if (!volume.unfinished.empty()) return Unavailable("{}", volume.unfinished);
  return CheckWhole("volume " + volume.id, StorageOf(volume), volume.bytes, volume.made_bytes);
}

absl::Status CheckMode(const std::string& id, bool block_only, const Capability& capability) {
  if (!block_only || capability.access_type == AccessType::kBlock) return absl::OkStatus();
  return FailedPrecondition(
      "volume {} was made for block access only, and is not mounted as a filesystem: whoever had it wrote every byte "
      "of it; ask for block access, or make a copy of it for mount access with the parameter {}=true",
      id, kConversionKey);
}

}  // namespace mooring
