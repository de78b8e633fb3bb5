#include "plugin/model/backend_traits.h"

namespace mooring {

const BackendTraits& TraitsOf(BackendKind kind) {
  static const BackendTraits kImage = {.block = true,
                                       .snapshots = true,
                                       .clones = true,
                                       .grows = true,
                                       .enforces_size = true,
                                       .keeps_data = true,
                                       .tunes = true,
                                       .fs_types = {"ext4", "xfs", "btrfs"}};
  static const BackendTraits kDirectory = {.keeps_data = true};
  static const BackendTraits kDevice = {
      .block = true, .enforces_size = true, .keeps_data = true, .fs_types = {"ext4", "xfs", "btrfs"}};
  static const BackendTraits kTmpfs = {.grows = true, .enforces_size = true};
  switch (kind) {
    case BackendKind::kImage:
      return kImage;
    case BackendKind::kDirectory:
      return kDirectory;
    case BackendKind::kDevice:
      return kDevice;
    case BackendKind::kTmpfs:
      return kTmpfs;
  }
  return kDirectory;
}

std::string_view ToString(BackendKind kind) {
  switch (kind) {
    case BackendKind::kImage:
      return "image";
    case BackendKind::kDirectory:
      return "directory";
    case BackendKind::kDevice:
      return "device";
    case BackendKind::kTmpfs:
      return "tmpfs";
  }
  return "directory";
}

std::string_view DefaultFsTypeOf(BackendKind kind) {
  const std::vector<std::string>& choices = TraitsOf(kind).fs_types;
  return choices.empty() ? ToString(kind) : std::string_view(choices.front());
}

}  // namespace mooring
