#include "mounter/propagation.h"

#include <fmt/format.h>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/arguments.h"
#include "cli/mounts/describe.h"
#include "cli/mounts/paths.h"
#include "mounter/mount/change_propagation.h"

namespace mooring::cli::mounts_area {
namespace {

// The words of mount(8) that begin with r change the whole tree. So do those of the orchestrators, because a task needs
// the same propagation for the mounts below. "private", a word of both Nomad and mount(8), changes one mount.
bool IsRecursive(const std::string& word) { return word != "private" && word != "slave" && word != "shared"; }

absl::Status Change(const std::string& path, const std::string& word) {
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, ParsePropagation(word));
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  return ChangePropagation(path, propagation, IsRecursive(word));
}

}  // namespace

absl::StatusOr<Answer> ShowOrSetPropagation(const Arguments& arguments, std::ostream&) {
  MOORING_ASSIGN_OR_RETURN(const std::string path, ResolvePath(arguments.target));
  if (!arguments.word.empty()) MOORING_RETURN_IF_ERROR(Change(path, arguments.word));
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(0));
  const TableMount* mount = MountAtPath(view, path);
  if (mount == nullptr) return NotFound("nothing is mounted at {}", Quote(path));
  return Answer{fmt::format("{}: {}\n", Visible(path), PropagationText(*mount)),
                JsonObject().AddRaw("mount", MountJson(*mount).ToString()).ToString()};
}

}  // namespace mooring::cli::mounts_area
