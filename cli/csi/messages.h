// Parts of CSI messages as text for people.
#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <vector>

#include "cli/flags/flag_values.h"
#include "cli/output/table.h"
#include "csi.pb.h"

namespace mooring::cli::csi_area {

using cli::ToString;                                            // of maps
std::string ToString(const csi::v1::Topology& topology);        // the segments, in the same form
std::string ToString(const google::protobuf::Timestamp& time);  // RFC 3339; numbers if it is not a valid date
std::string ToString(const csi::v1::VolumeCondition& condition);
std::string ToString(const csi::v1::VolumeCapability& capability);  // "mount ext4 single-node-writer", "block mode-17"

template <typename Repeated>
std::string JoinStrings(const Repeated& strings) {
  return Join(std::vector<std::string>(strings.begin(), strings.end()), ", ");
}

void AddVolume(const csi::v1::Volume& volume, Details& details);
void AddSnapshot(const csi::v1::Snapshot& snapshot, Details& details);

Table SnapshotTable();  // without rows
void AddSnapshot(const csi::v1::Snapshot& snapshot, Table& table);

}  // namespace mooring::cli::csi_area
