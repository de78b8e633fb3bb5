// The messages about logical volumes.
#include "base/status.h"
#include "mounter/helper/wire.h"

namespace mooring::wire {

absl::StatusOr<LvmReport> From(const pb::LvmReport& message) {
  LvmReport report = {.bytes = message.bytes(),
                      .free_bytes = message.free_bytes(),
                      .extent_bytes = message.extent_bytes(),
                      .data_percent = message.data_percent(),
                      .metadata_percent = message.metadata_percent(),
                      .zeroes = message.zeroes(),
                      .problem = message.problem(),
                      .volumes = {}};
  for (const pb::LogicalVolume& each : message.volumes()) {
    report.volumes.push_back({.name = each.name(),
                              .bytes = each.bytes(),
                              .is_new = each.is_new(),
                              .is_cleared = each.is_cleared(),
                              .is_growing = each.is_growing(),
                              .is_enlarged = each.is_enlarged(),
                              .is_active = each.is_active(),
                              .is_open = each.is_open(),
                              .is_raw = each.is_raw()});
  }
  return report;
}

absl::StatusOr<NewLogicalVolume> From(const pb::NewLogicalVolume& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.pool(), &message.name(), &message.source(), &message.renew_fs_type()}));
  return NewLogicalVolume{.pool = message.pool(),
                          .name = message.name(),
                          .bytes = message.bytes(),
                          .clear = message.clear(),
                          .source = message.source(),
                          .is_snapshot = message.is_snapshot(),
                          .renew_fs_type = message.renew_fs_type()};
}

absl::StatusOr<LogicalVolumeName> From(const pb::LogicalVolumeName& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.pool(), &message.name()}));
  return LogicalVolumeName{.pool = message.pool(), .name = message.name()};
}

absl::StatusOr<std::pair<LogicalVolumeName, std::uint64_t>> From(const pb::GrowLogicalVolumeRequest& message) {
  MOORING_ASSIGN_OR_RETURN(LogicalVolumeName volume, From(message.volume()));
  return std::pair(std::move(volume), std::uint64_t{message.bytes()});
}

void To(const LvmReport& report, pb::LvmReport& message) {
  message.set_bytes(report.bytes);
  message.set_free_bytes(report.free_bytes);
  message.set_extent_bytes(report.extent_bytes);
  message.set_data_percent(report.data_percent);
  message.set_metadata_percent(report.metadata_percent);
  message.set_zeroes(report.zeroes);
  message.set_problem(report.problem);
  for (const LogicalVolume& each : report.volumes) {
    pb::LogicalVolume& added = *message.add_volumes();
    added.set_name(each.name);
    added.set_bytes(each.bytes);
    added.set_is_new(each.is_new);
    added.set_is_cleared(each.is_cleared);
    added.set_is_growing(each.is_growing);
    added.set_is_enlarged(each.is_enlarged);
    added.set_is_active(each.is_active);
    added.set_is_open(each.is_open);
    added.set_is_raw(each.is_raw);
  }
}

void To(const NewLogicalVolume& volume, pb::NewLogicalVolume& message) {
  message.set_pool(volume.pool);
  message.set_name(volume.name);
  message.set_bytes(volume.bytes);
  message.set_clear(volume.clear);
  message.set_source(volume.source);
  message.set_is_snapshot(volume.is_snapshot);
  message.set_renew_fs_type(volume.renew_fs_type);
}

void To(const LogicalVolumeName& volume, pb::LogicalVolumeName& message) {
  message.set_pool(volume.pool);
  message.set_name(volume.name);
}

void To(const LogicalVolumeName& volume, std::uint64_t bytes, pb::GrowLogicalVolumeRequest& message) {
  To(volume, *message.mutable_volume());
  message.set_bytes(bytes);
}

}  // namespace mooring::wire
