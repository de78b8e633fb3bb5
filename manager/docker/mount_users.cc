#include "manager/docker/mount_users.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/file/path.h"
#include "base/text/whole_number.h"
#include "mounter/table/mount_info_file.h"

namespace mooring::manager {
namespace {

using Ticks = std::uint64_t;  // since the boot, as in /proc/PID/stat
using Table = std::vector<TableMount>;

bool StartedBefore(Ticks start, pid_t pid) {
  const absl::StatusOr<std::string> its = StartTimeOf(pid);
  const std::optional<Ticks> ticks = its.ok() ? ParseWhole<Ticks>(*its) : std::nullopt;
  return ticks && *ticks < start;
}

absl::StatusOr<Table> TableOf(const std::string& process) { return ReadMountInfo("/proc/" + process + "/mountinfo"); }

const TableMount* TopAt(const Table& table, const std::string& path) {
  const auto top =
      std::find_if(table.rbegin(), table.rend(), [&](const TableMount& mount) { return mount.target == path; });
  return top == table.rend() ? nullptr : &*top;
}

bool ShowTheSame(const TableMount* a, const TableMount* b) {
  return a != nullptr && b != nullptr && a->device == b->device && a->root == b->root;
}

// The mounts of the host, as this process and the engine see them.
class HostMounts {
 public:
  HostMounts(std::array<Table, 2> tables, const AttachmentRecord& attachment)
      : tables_(std::move(tables)), attachment_(attachment), mount_(TopAt(tables_[0], attachment.attach_path)) {}

  bool KnowsTheAttachment() const { return mount_ != nullptr; }

  bool HasUser(const Table& other) const {
    return std::any_of(other.begin(), other.end(),
                       [&](const TableMount& mount) { return ShowsTheVolume(mount) && !IsOfTheHost(mount, other); });
  }

 private:
  // A container may have only a directory of the volume (volume-subpath).
  bool ShowsTheVolume(const TableMount& mount) const {
    return mount.device == mount_->device && IsBelow(mount.root, mount_->root);
  }

  bool IsOfTheHost(const TableMount& mount, const Table& table) const {
    for (const std::string& own : {attachment_.attach_path, attachment_.target_path, attachment_.staging_path}) {
      if (!own.empty() && mount.target.ends_with(own)) return true;
    }
    return std::any_of(tables_.begin(), tables_.end(), [&](const Table& host) {
      return ShowTheSame(TopAt(host, "/"), TopAt(table, "/")) && ShowTheSame(TopAt(host, mount.target), &mount);
    });
  }

  const std::array<Table, 2> tables_;
  const AttachmentRecord& attachment_;
  const TableMount* const mount_;
};

}  // namespace

bool HasUserOlderThan(const ProcessIdentity& engine, const AttachmentRecord& attachment) {
  const std::optional<Ticks> start = ParseWhole<Ticks>(engine.start_time);
  const absl::StatusOr<Table> own = TableOf("self"), its = TableOf(std::to_string(engine.pid));
  if (!start || !own.ok() || !its.ok()) return true;
  const HostMounts host({*own, *its}, attachment);
  if (!host.KnowsTheAttachment()) return true;

  std::set<ino_t> seen;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    const std::optional<pid_t> pid = ParseWhole<pid_t>(name);
    if (!pid) continue;
    struct stat mount_namespace = {};
    const std::string path = "/proc/" + name + "/ns/mnt";
    if (::stat(path.c_str(), &mount_namespace) != 0) {
      if (errno == ENOENT || errno == ESRCH) continue;  // it has ended
      return true;
    }
    if (seen.contains(mount_namespace.st_ino) || !StartedBefore(*start, *pid)) continue;
    const absl::StatusOr<Table> table = TableOf(name);
    if (!table.ok() && ::stat(path.c_str(), &mount_namespace) == 0) return true;
    if (!table.ok() || table->empty()) continue;  // it has ended; another process may represent the namespace
    seen.insert(mount_namespace.st_ino);
    if (host.HasUser(*table)) return true;
  }
  return static_cast<bool>(error);
}

}  // namespace mooring::manager
