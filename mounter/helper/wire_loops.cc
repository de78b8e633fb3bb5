// The messages about loop devices.
#include "base/status.h"
#include "mounter/helper/wire.h"

namespace mooring::wire {

absl::StatusOr<AttachLoopRequest> From(const pb::AttachLoopRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.backing_file(), &message.label()}));
  return AttachLoopRequest{message.backing_file(), message.label(), message.read_only()};
}

absl::StatusOr<LoopInfo> From(const pb::LoopInfo& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.device(), &message.label()}));
  return LoopInfo{.device = message.device(),
                  .device_number = message.device_number(),
                  .backing_device = message.backing_device(),
                  .backing_inode = message.backing_inode(),
                  .backing_rdev = message.backing_rdev(),
                  .label = message.label(),
                  .offset = message.offset(),
                  .size_limit = message.size_limit(),
                  .read_only = message.read_only(),
                  .auto_clear = message.auto_clear(),
                  .mounted = message.mounted(),
                  .raw = message.raw()};
}

absl::StatusOr<std::pair<LoopInfo, LoopTuning>> From(const pb::TuneLoopRequest& message) {
  MOORING_ASSIGN_OR_RETURN(LoopInfo loop, From(message.loop()));
  return std::pair(std::move(loop), LoopTuning{message.read_ahead_bytes()});
}

absl::StatusOr<std::vector<LoopInfo>> From(const pb::LoopInfos& message) {
  std::vector<LoopInfo> loops;
  for (const pb::LoopInfo& loop : message.loops()) {
    MOORING_ASSIGN_OR_RETURN(LoopInfo info, From(loop));
    loops.push_back(std::move(info));
  }
  return loops;
}

void To(const AttachLoopRequest& request, pb::AttachLoopRequest& message) {
  message.set_backing_file(request.backing_file);
  message.set_label(request.label);
  message.set_read_only(request.read_only);
}

void To(const LoopInfo& info, pb::LoopInfo& message) {
  message.set_device(info.device);
  message.set_device_number(info.device_number);
  message.set_backing_device(info.backing_device);
  message.set_backing_inode(info.backing_inode);
  message.set_backing_rdev(info.backing_rdev);
  message.set_label(info.label);
  message.set_offset(info.offset);
  message.set_size_limit(info.size_limit);
  message.set_read_only(info.read_only);
  message.set_auto_clear(info.auto_clear);
  message.set_mounted(info.mounted);
  message.set_raw(info.raw);
}

void To(const LoopInfo& loop, const LoopTuning& tuning, pb::TuneLoopRequest& message) {
  To(loop, *message.mutable_loop());
  message.set_read_ahead_bytes(tuning.read_ahead_bytes);
}

void To(const std::vector<LoopInfo>& infos, pb::LoopInfos& message) {
  for (const LoopInfo& info : infos) To(info, *message.add_loops());
}

}  // namespace mooring::wire
