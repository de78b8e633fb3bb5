#include "mounter/conditions.h"

#include "base/deadline.h"
#include "base/file/path.h"
#include "base/text/quote.h"

namespace mooring {

bool IsExpected(const PathInfo& info, const ExpectedMount& expected) {
  if (!info.mount || !info.failure.empty()) return false;
  if (expected.device != 0 && info.device == expected.device) return true;
  if (info.loop) return !expected.label.empty() && info.loop->label == expected.label;
  if (info.mount->fs_type == "tmpfs") return !expected.label.empty() && info.mount->source == expected.label;
  return !expected.root_name.empty() && NameOf(info.mount->root) == expected.root_name &&
         (expected.root_inode == 0 || expected.root_inode == info.inode) &&
         (expected.root_device == 0 || expected.root_device == info.inode_device);
}

bool MayUnmount(const PathInfo& target, const ExpectedMount& expected) {
  return target.mount ? IsExpected(target, expected) : target.kind != PathInfo::Kind::kSymlink;
}

std::optional<BindRequest> BindOf(const ConditionalBind& request, const PathInfo& source) {
  if (!IsExpected(source, request.source) || source.kind != PathInfo::Kind::kDirectory) return std::nullopt;
  if (!request.source_fs_type.empty() && source.mount->fs_type != request.source_fs_type) return std::nullopt;
  BindRequest bind = request.bind;
  bind.flags = Stricter(source.mount->flags, bind.flags);
  if (bind.flags.read_only != request.bind.flags.read_only) return std::nullopt;
  return bind;
}

absl::Status CheckInTime(const std::string& path) {
  if (!DeadlineScope::HasPassed()) return absl::OkStatus();
  return absl::DeadlineExceededError("looking at " + Quote(path) + " took too long: nothing was changed");
}

}  // namespace mooring
