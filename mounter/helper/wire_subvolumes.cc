#include "base/status.h"
#include "mounter/helper/wire.h"

namespace mooring::wire {

absl::StatusOr<std::vector<NewSubvolume>> From(const pb::MakeSubvolumesRequest& message) {
  if (message.subvolumes_size() > kMostCopies) {
    return InvalidArgument("a request to the mount helper has {} subvolumes", message.subvolumes_size());
  }
  std::vector<NewSubvolume> subvolumes;
  for (const pb::NewSubvolume& each : message.subvolumes()) {
    NewSubvolume added = {.path = {}, .bytes = each.bytes(), .read_only = each.read_only()};
    MOORING_ASSIGN_OR_RETURN(added.path, From(each.path()));
    MOORING_ASSIGN_OR_RETURN(added.source, From(each.source()));
    subvolumes.push_back(std::move(added));
  }
  return subvolumes;
}

absl::StatusOr<std::pair<std::string, std::uint64_t>> From(const pb::LimitRequest& message) {
  MOORING_ASSIGN_OR_RETURN(std::string path, From(message.path()));
  return std::pair(std::move(path), std::uint64_t{message.bytes()});
}

void To(const std::vector<NewSubvolume>& subvolumes, pb::MakeSubvolumesRequest& message) {
  for (const NewSubvolume& each : subvolumes) {
    pb::NewSubvolume& added = *message.add_subvolumes();
    added.set_path(each.path);
    added.set_source(each.source);
    added.set_bytes(each.bytes);
    added.set_read_only(each.read_only);
  }
}

void To(const std::string& path, std::uint64_t bytes, pb::LimitRequest& message) {
  message.set_path(path);
  message.set_bytes(bytes);
}

}  // namespace mooring::wire
