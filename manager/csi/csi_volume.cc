#include "manager/csi/csi_volume.h"

namespace mooring::manager {

csi::v1::VolumeCapability::AccessMode::Mode ToCsi(AccessMode mode) {
  using Csi = csi::v1::VolumeCapability::AccessMode;
  switch (mode) {
    case AccessMode::kSingleNodeReaderOnly:
      return Csi::SINGLE_NODE_READER_ONLY;
    case AccessMode::kSingleNodeWriter:
      return Csi::SINGLE_NODE_WRITER;
    case AccessMode::kSingleNodeSingleWriter:
      return Csi::SINGLE_NODE_SINGLE_WRITER;
    case AccessMode::kSingleNodeMultiWriter:
      return Csi::SINGLE_NODE_MULTI_WRITER;
    case AccessMode::kMultiNodeReaderOnly:
      return Csi::MULTI_NODE_READER_ONLY;
    case AccessMode::kMultiNodeSingleWriter:
      return Csi::MULTI_NODE_SINGLE_WRITER;
    case AccessMode::kMultiNodeMultiWriter:
      return Csi::MULTI_NODE_MULTI_WRITER;
  }
  return Csi::UNKNOWN;
}

csi::v1::VolumeCapability ToCsi(Capability capability, const MountOptions& options, bool knows_finer_modes) {
  const bool finer = capability.access == AccessMode::kSingleNodeSingleWriter ||
                     capability.access == AccessMode::kSingleNodeMultiWriter;
  if (finer && !knows_finer_modes) capability.access = AccessMode::kSingleNodeWriter;
  csi::v1::VolumeCapability message;
  message.mutable_access_mode()->set_mode(ToCsi(capability.access));
  switch (capability.attachment) {
    case AttachmentMode::kBlockDevice:
      message.mutable_block();
      break;
    case AttachmentMode::kFileSystem: {
      auto& mount = *message.mutable_mount();
      mount.set_fs_type(options.fs_type);
      mount.mutable_mount_flags()->Add(options.flags.begin(), options.flags.end());
      break;
    }
  }
  return message;
}

const std::string& IdForPlugin(const Volume& volume) {
  return volume.external_id.empty() ? volume.key.id : volume.external_id;
}

const std::string& IdForPlugin(const AttachmentRecord& record) {
  return record.external_id.empty() ? record.volume.id : record.external_id;
}

}  // namespace mooring::manager
