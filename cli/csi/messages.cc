#include "cli/csi/messages.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <vector>

#include "base/text/size.h"
#include "cli/flags/flag_values.h"

namespace mooring::cli::csi_area {
namespace {

using csi::v1::VolumeCapability;
using google::protobuf::util::TimeUtil;

bool IsDate(const google::protobuf::Timestamp& time) {
  return time.seconds() >= TimeUtil::kTimestampMinSeconds && time.seconds() <= TimeUtil::kTimestampMaxSeconds &&
         time.nanos() >= 0 && time.nanos() < 1'000'000'000;
}

std::string SourceOf(const csi::v1::VolumeContentSource& source) {
  switch (source.type_case()) {
    case csi::v1::VolumeContentSource::kSnapshot:
      return "snapshot " + source.snapshot().snapshot_id();
    case csi::v1::VolumeContentSource::kVolume:
      return "volume " + source.volume().volume_id();
    case csi::v1::VolumeContentSource::TYPE_NOT_SET:
      return "";
  }
  return "";
}

std::string CreatedAt(const csi::v1::Snapshot& snapshot) {
  return snapshot.has_creation_time() ? ToString(snapshot.creation_time()) : "";
}

std::string ReadyOf(const csi::v1::Snapshot& snapshot) { return snapshot.ready_to_use() ? "yes" : "no"; }

}  // namespace

std::string ToString(const csi::v1::Topology& topology) { return ToString(topology.segments()); }

std::string ToString(const google::protobuf::Timestamp& time) {
  return IsDate(time) ? TimeUtil::ToString(time) : fmt::format("{} s, {} ns", time.seconds(), time.nanos());
}

std::string ToString(const csi::v1::VolumeCondition& condition) {
  const std::string verdict = condition.abnormal() ? "abnormal" : "ok";
  return condition.message().empty() ? verdict : fmt::format("{}: {}", verdict, condition.message());
}

std::string ToString(const VolumeCapability& capability) {
  const std::string mode =
      EnumWord(*VolumeCapability::AccessMode::Mode_descriptor(), capability.access_mode().mode(), "mode");
  switch (capability.access_type_case()) {
    case VolumeCapability::kBlock:
      return "block " + mode;
    case VolumeCapability::kMount: {
      const std::string& fs_type = capability.mount().fs_type();
      return fmt::format("mount {}{}{}", fs_type, fs_type.empty() ? "" : " ", mode);
    }
    case VolumeCapability::ACCESS_TYPE_NOT_SET:
      return mode;
  }
  return mode;
}

void AddVolume(const csi::v1::Volume& volume, Details& details) {
  details.Add("id", volume.volume_id());
  details.Add("capacity", FormatKnownSize(volume.capacity_bytes()));
  details.AddIf("context", ToString(volume.volume_context()));
  details.AddIf("source", SourceOf(volume.content_source()));
  for (const csi::v1::Topology& topology : volume.accessible_topology()) details.Add("topology", ToString(topology));
}

void AddSnapshot(const csi::v1::Snapshot& snapshot, Details& details) {
  details.Add("id", snapshot.snapshot_id());
  details.Add("volume", snapshot.source_volume_id());
  details.Add("size", FormatKnownSize(snapshot.size_bytes()));
  details.AddIf("created", CreatedAt(snapshot));
  details.Add("ready", ReadyOf(snapshot));
  details.AddIf("group", snapshot.group_snapshot_id());
}

Table SnapshotTable() { return Table({"ID", "VOLUME", "SIZE", "CREATED", "READY", "GROUP"}); }

void AddSnapshot(const csi::v1::Snapshot& snapshot, Table& table) {
  table.Add({snapshot.snapshot_id(), snapshot.source_volume_id(), FormatKnownSize(snapshot.size_bytes()),
             CreatedAt(snapshot), ReadyOf(snapshot), snapshot.group_snapshot_id()});
}

}  // namespace mooring::cli::csi_area
