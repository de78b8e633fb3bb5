// `mooring trim`.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <map>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/arguments.h"
#include "cli/mounts/describe.h"
#include "cli/mounts/paths.h"
#include "cli/output/output.h"
#include "cli/output/table.h"
#include "mounter/kernel/kernel_mounter.h"

namespace mooring::cli::mounts_area {
namespace {

// The name of its image tells. A disk of the host is the host's to trim.
bool IsVolume(const TableMount& mount) {
  const std::optional<LoopBehind> loop = LoopBehindMount(mount);
  if (!loop) return false;
  const std::string_view name = NameOf(loop->backing_file);
  return name.starts_with("vol-") && name.ends_with(".img");
}

bool HasFilesystem(const TableMount& mount) {
  return mount.fs_type == "ext4" || mount.fs_type == "xfs" || mount.fs_type == "btrfs";
}

// Each filesystem once, by its device, and through a mount that no other one covers, if there is one.
std::map<dev_t, const TableMount*> Chosen(const NamespaceView& view, const std::string& below) {
  std::map<dev_t, const TableMount*> chosen;
  for (const TableMount& mount : view.mounts) {
    const bool asked = below.empty() || IsBelow(mount.target, below);
    if (!asked || mount.superblock_read_only || !HasFilesystem(mount) || !IsVolume(mount)) continue;
    const TableMount*& known = chosen.try_emplace(mount.device, &mount).first->second;
    if (MountAtPath(view, known->target) != known) known = &mount;
  }
  return chosen;
}

// Returns how many bytes the filesystem has told its device to be free. Some filesystems skip what they told before.
absl::StatusOr<std::uint64_t> TrimAt(const TableMount& mount) {
  const UniqueFd top(::open(mount.target.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct statx found = {};
  if (!top.ok() || ::statx(top.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &found) != 0) {
    return ErrnoStatus(errno, "open", mount.target);
  }
  if (found.stx_mnt_id != mount.id) {
    return FailedPrecondition("another mount covers {}: unmount it first", Quote(mount.target));
  }
  fstrim_range range = {.start = 0, .len = std::numeric_limits<std::uint64_t>::max(), .minlen = 0};
  if (::ioctl(top.get(), FITRIM, &range) == 0) return range.len;
  return ErrnoStatus(errno, "tell its device what is free in (FITRIM)", mount.target);
}

}  // namespace

absl::StatusOr<Answer> Trim(const Arguments& arguments, std::ostream& err) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  std::string below;
  if (!arguments.below.empty()) {
    MOORING_ASSIGN_OR_RETURN(below, ResolvePathIn(0, arguments.below));
  }
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(0));
  Table table({"TARGET", "TRIMMED"});
  std::vector<std::string> trimmed;
  absl::Status failed;
  const std::map<dev_t, const TableMount*> chosen = Chosen(view, below);
  for (const auto& [device, mount] : chosen) {
    const absl::StatusOr<std::uint64_t> bytes = TrimAt(*mount);
    failed.Update(bytes.status());
    if (!bytes.ok()) {
      err << fmt::format("not trimmed: {}\n", Visible(Message(bytes.status())));
      continue;
    }
    table.Add({mount->target, SizeText(*bytes)});
    trimmed.push_back(JsonObject().Add("target", mount->target).AddNumber("bytes", *bytes).ToString());
  }
  MOORING_RETURN_IF_ERROR(
      Annotate(failed, fmt::format("{} of {} filesystems were trimmed", trimmed.size(), chosen.size())));
  if (trimmed.empty()) return Answer{"no filesystem of a volume is mounted here\n", "{\"trimmed\":[]}"};
  return Answer{table.ToString(), JsonObject().AddRaw("trimmed", JsonArray(trimmed)).ToString()};
}

}  // namespace mooring::cli::mounts_area
