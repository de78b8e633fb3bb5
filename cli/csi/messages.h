// Parts of CSI messages from the command line, and as text for people.
#ifndef MOORING_CLI_CSI_MESSAGES_H_
#define MOORING_CLI_CSI_MESSAGES_H_

#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <vector>

#include "cli/csi/arguments.h"
#include "cli/output/table.h"
#include "csi.pb.h"

namespace mooring::cli::csi_area {

using cli::ToString;                             // of maps
bool NamesCapacity(const Arguments& arguments);  // whether --size or --limit is given; if not, leave out the range
csi::v1::CapacityRange CapacityOf(const Arguments& arguments);

std::string ToString(const csi::v1::Topology& topology);        // the segments, in the same form
std::string ToString(const google::protobuf::Timestamp& time);  // RFC 3339; numbers if it is not a valid date
std::string ToString(const csi::v1::VolumeCondition& condition);

template <typename Repeated>
std::string JoinStrings(const Repeated& strings) {
  return Join(std::vector<std::string>(strings.begin(), strings.end()), ", ");
}

void AddVolume(const csi::v1::Volume& volume, Details& details);
void AddSnapshot(const csi::v1::Snapshot& snapshot, Details& details);

Table SnapshotTable();  // without rows
void AddSnapshot(const csi::v1::Snapshot& snapshot, Table& table);

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_MESSAGES_H_
