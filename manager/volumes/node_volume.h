// The capability that node calls about a record send.
#pragma once

#include "csi.pb.h"
#include "manager/csi/csi_volume.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/records.h"

namespace mooring::manager {

inline csi::v1::VolumeCapability CapabilityFor(const ReadyPlugin& node, const AttachmentRecord& record) {
  const bool finer = node.fingerprint.traits.node_single_writer;
  if (!record.staged_as) return ToCsi(record.capability, record.options, finer);
  const Capability capability = {.access = record.staged_as->access, .attachment = record.capability.attachment};
  return ToCsi(capability, record.staged_as->options, finer);
}

}  // namespace mooring::manager
