#include "plugin/backends/registry.h"

#include "plugin/backends/btrfs/btrfs_backend.h"
#include "plugin/backends/device/device_backend.h"
#include "plugin/backends/directory/directory_backend.h"
#include "plugin/backends/image/image_backend.h"
#include "plugin/backends/luks/luks_backend.h"
#include "plugin/backends/lvm/lvm_backend.h"
#include "plugin/backends/nfs/nfs_backend.h"
#include "plugin/backends/tmpfs/tmpfs_backend.h"

namespace mooring {

const BackendType& TypeOf(BackendKind kind) {
  switch (kind) {
    case BackendKind::kImage:
      return ImageBackendType();
    case BackendKind::kDirectory:
      return DirectoryBackendType();
    case BackendKind::kDevice:
      return DeviceBackendType();
    case BackendKind::kTmpfs:
      return TmpfsBackendType();
    case BackendKind::kNfs:
      return NfsBackendType();
    case BackendKind::kBtrfs:
      return BtrfsBackendType();
    case BackendKind::kLvm:
      return LvmBackendType();
    case BackendKind::kLuks:
      return LuksBackendType();
  }
  return ImageBackendType();  // not reached: the switch has every kind
}

BackendTraits TraitsOf(const PoolConfig& pool) {
  BackendTraits traits = TraitsOf(pool.kind);
  TypeOf(pool.kind).adapt(pool, traits);
  return traits;
}

std::string_view DefaultFsTypeOf(BackendKind kind) {
  if (kind == BackendKind::kBtrfs) return kSubvolumeFsType;
  const BackendTraits& traits = TraitsOf(kind);
  return traits.fs_types.empty() ? traits.name : std::string_view(traits.fs_types.front());
}

}  // namespace mooring
