#include "mounter/ext4_offline.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/quote.h"
#include "base/status.h"
#include "mounter/command.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kCheckLimit{3600};  // a large filesystem with errors takes its time
constexpr std::chrono::seconds kGrowLimit{600};

}  // namespace

absl::Status CheckExt4(const LockedImage& image, Thoroughness thoroughness) {
  std::vector<std::string> command = {"e2fsck", "-p", image.path};
  if (thoroughness == Thoroughness::kAlways) command.insert(command.begin() + 1, "-f");
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, RunCommand(command, "e2fsprogs", kCheckLimit, image.fd));
  // fsck(8): 1 and 2 are "corrected"; 4 and above, alone or combined, are not.
  if (result.exit_code < 4) return absl::OkStatus();
  return FailedPrecondition(
      fmt::format("the filesystem in {} has errors that e2fsck -p does not mend (exit code {}): {}; "
                  "nothing was mounted; keep a copy, then run: e2fsck -f {}",
                  Quote(image.path), result.exit_code, Quote(result.output, 2048), image.path));
}

absl::Status ResizeExt4(const LockedImage& image) {
  MOORING_RETURN_IF_ERROR(CheckExt4(image, Thoroughness::kAlways));
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunCommand({"resize2fs", image.path}, "e2fsprogs", kGrowLimit, image.fd));
  if (result.exit_code == 0) return absl::OkStatus();
  return Internal(
      fmt::format("resize2fs {} ended with {}: {}", Quote(image.path), result.exit_code, Quote(result.output, 2048)));
}

}  // namespace mooring
