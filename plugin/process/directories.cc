#include "plugin/process/directories.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/real_directory.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/guard/guarded_mounter.h"
#include "plugin/backends/registry.h"
#include "plugin/model/volume_id.h"
#include "plugin/process/export_pools.h"

namespace mooring {
namespace {

constexpr std::string_view kStateDirectory = "the state directory";
constexpr std::string_view kVolumeDirectory = "the directory of volumes";

// Entries of the state directory that the plugin cannot start without.
constexpr const char* kRecords[] = {"catalog.db", "node.db", "lock", "volumes", "memory", "devices"};

RunAs UserOf(const Config& config) { return ::geteuid() == 0 ? config.user : RunAs{::geteuid(), ::getegid()}; }

absl::Status CannotWrite(int error, const std::string& directory, std::string_view what, const RunAs& user) {
  const std::string failed = Message(ErrnoStatus(error, fmt::format("write in {}", what), directory));
  if (error == EROFS) return FailedPrecondition(failed + ": mount it writable, or give the plugin another one");
  if (error == ENOENT) return FailedPrecondition(failed + ": it was there at the start; put it back");
  if (error != EACCES && error != EPERM) return ErrnoStatus(error, fmt::format("write in {}", what), directory);
  return FailedPrecondition(
      "{}: the plugin works as user {}:{}: see that this user may write there, and may pass all directories above it",
      failed, user.uid, user.gid);
}

int ErrnoOfAccess(const std::string& directory) {
  return ::faccessat(AT_FDCWD, directory.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// The directories above may keep the user out.
absl::Status CheckWritableTo(const RunAs& user, const std::string& path, std::string_view what) {
  if (user.uid == ::geteuid()) return CheckWritable(path, what);
  const int error = ErrnoAs(user, [&path] { return ErrnoOfAccess(path); });
  return error == 0 ? absl::OkStatus() : CannotWrite(error, path, what, user);
}

// An empty directory in its place would have no volumes, and new ones would go to the disk of the mount point.
absl::Status CheckIsThere(const std::string& path, std::string_view what, std::string_view why, const RunAs& user) {
  if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return absl::OkStatus();
  const std::string command =
      user.is_root() ? "mkdir -m 0700" : fmt::format("install -d -m 0700 -o {} -g {}", user.uid, user.gid);
  return FailedPrecondition(
      "{} {} is missing, and {} says that none is made: mount its disk; on a new disk, make the directory ({})", what,
      Quote(path), why, command);
}

// Whose files a directory may hold.
enum class Holding {
  kPlugin,  // the plugin's alone
  kTasks,   // a pool of directory volumes: the files below it belong to tasks
};

std::string ChownCommand(const std::string& path, Holding holding, uid_t owner, const RunAs& user,
                         const std::vector<std::string>& tasks_directories) {
  const std::string place = ShellQuote(path);
  if (tasks_directories.empty()) {
    return fmt::format("chown{} --from={} {}:{} {}", holding == Holding::kPlugin ? " -R" : "", owner, user.uid,
                       user.gid, place);
  }
  std::string except;
  for (const std::string& directory : tasks_directories) {
    except += fmt::format("-samefile {} -prune -o ", ShellQuote(directory));
  }
  return fmt::format("find {} {}-user {} -exec chown -h {}:{} {{}} +", place, except, owner, user.uid, user.gid);
}

// Opens one directory and holds what is asked about it.
class OwnDirectory {
 public:
  // `refuse`: what forbids to make a missing directory. Empty: nothing does.
  OwnDirectory(std::string_view what, Holding holding, const Config& config, std::string_view refuse)
      : what_(what), holding_(holding), refuse_(refuse), config_(config), user_(UserOf(config)) {}

  // Gives the real path.
  absl::StatusOr<std::string> Prepare(const std::string& path) {
    MOORING_RETURN_IF_ERROR(refuse_.empty() ? MakeRealDirectory(path, user_.uid, user_.gid)
                                            : CheckIsThere(path, what_, refuse_, user_));
    MOORING_ASSIGN_OR_RETURN(directory_, OpenRealDirectory(path));
    if (!user_.is_root()) MOORING_RETURN_IF_ERROR(CheckNoDoubtfulLink(directory_));
    MOORING_RETURN_IF_ERROR(CheckOwner());
    MOORING_RETURN_IF_ERROR(CheckWritableTo(user_, directory_.path, what_));
    return directory_.path;
  }

  absl::Status CheckOwnerOf(const char* entry) const {
    struct stat status = {};
    const bool is_there = ::fstatat(directory_.fd.get(), entry, &status, AT_SYMLINK_NOFOLLOW) == 0;
    return is_there && status.st_uid != user_.uid ? BelongsToAnother(directory_.path + "/" + entry, status)
                                                  : absl::OkStatus();
  }

 private:
  // Another user who may write there can replace the plugin's files.
  absl::Status CheckOwner() const {
    struct stat status = {};
    if (::fstat(directory_.fd.get(), &status) != 0) return ErrnoStatus(errno, "inspect", directory_.path);
    if (status.st_uid != user_.uid) return BelongsToAnother(directory_.path, status);
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
    const std::string opened = fmt::format("/proc/self/fd/{}", directory_.fd.get());
    const auto names = EntriesOf(opened);
    if (names.ok() && names->empty()) {
      if (::chmod(opened.c_str(), 0700) == 0) return absl::OkStatus();
      return ErrnoStatus(errno, "make private the directory", directory_.path);
    }
    return FailedPrecondition("others may write in {} {} (owner {}, mode {:o}): give the plugin a directory of its own",
                              what_, Quote(directory_.path), status.st_uid, status.st_mode & 07777);
  }

  absl::Status BelongsToAnother(const std::string& path, const struct stat& status) const {
    return FailedPrecondition(
        "{} belongs to user {}:{}, and the plugin works as user {}:{}: end every plugin that uses it, then run: {}",
        path == directory_.path ? fmt::format("{} {}", what_, Quote(path)) : Quote(path), status.st_uid, status.st_gid,
        user_.uid, user_.gid, ChownCommand(directory_.path, holding_, status.st_uid, user_, TasksDirectories()));
  }

  // Directories of tasks' files that exist in this one.
  std::vector<std::string> TasksDirectories() const {
    std::vector<std::string> found;
    for (const PoolConfig& pool : config_.pools) {
      if (!TypeOf(pool.kind).tasks_files) continue;
      const absl::StatusOr<RealDirectory> directory = OpenRealDirectory(pool.path);
      const bool is_inside =
          directory.ok() && directory->path != directory_.path && IsBelow(directory->path, directory_.path);
      if (is_inside) found.push_back(directory->path);
    }
    return found;
  }

  const std::string_view what_;
  const Holding holding_;
  const std::string_view refuse_;
  const Config& config_;
  const RunAs user_;
  RealDirectory directory_;
};

std::string_view WhatRefuses(const Config& config) {
  return config.if_missing == IfMissing::kMake ? "" : "--require-directories";
}

// Missing parents are made, too: they are root's, and others may pass them.
absl::Status MakeParents(const std::string& path) {
  std::error_code error;
  const mode_t before = ::umask(0066);
  std::filesystem::create_directories(ParentOf(path), error);
  ::umask(before);
  return error ? ErrnoStatus(error.value(), "make the state directory", path) : absl::OkStatus();
}

absl::StatusOr<std::string> PrepareStateDir(const Config& config) {
  if (config.if_missing == IfMissing::kMake && ::access(config.state_dir.c_str(), F_OK) != 0) {
    absl::Status made = MakeParents(config.state_dir);
    if (made.ok()) made = MakeRealDirectory(config.state_dir, UserOf(config).uid, UserOf(config).gid);
    if (!made.ok()) {
      return FailedPrecondition(Message(made) + ": see that it can be made there, or give the plugin another one");
    }
  }
  OwnDirectory directory(kStateDirectory, Holding::kPlugin, config, WhatRefuses(config));
  MOORING_ASSIGN_OR_RETURN(std::string path, directory.Prepare(config.state_dir));
  for (const char* record : kRecords) MOORING_RETURN_IF_ERROR(directory.CheckOwnerOf(record));
  return path;
}

absl::Status CheckApart(const std::vector<PoolConfig>& pools) {
  for (const PoolConfig& pool : pools) {
    for (const PoolConfig& other : pools) {
      if (&pool == &other || !TypeOf(pool.kind).owns_path || !TypeOf(other.kind).owns_path) continue;
      if (!IsBelow(pool.path, other.path)) continue;
      return InvalidArgument("the path {} of pool {} is, or lies in, that of pool {}: give each its own",
                             Quote(pool.path), pool.name, other.name);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PreparePool(const PoolConfig& pool, const Config& config) {
  if (pool.path.empty()) return config.state_dir + "/volumes";
  const Holding holding = TypeOf(pool.kind).tasks_files ? Holding::kTasks : Holding::kPlugin;
  const std::string_view refuse = pool.shared ? "shared=true" : WhatRefuses(config);
  absl::StatusOr<std::string> path = OwnDirectory(kVolumeDirectory, holding, config, refuse).Prepare(pool.path);
  return path.ok() ? path : Annotate(path.status(), fmt::format("pool {}", pool.name));
}

// The check of the host has read them, as the user that started the plugin.
absl::Status CheckKeysReadable(const PoolConfig& pool, const RunAs& user) {
  if (user.uid == ::geteuid()) return absl::OkStatus();
  PoolAccess access;
  TypeOf(pool.kind).allow(pool, access);
  for (const std::string& file : access.key_files) {
    const int error =
        ErrnoAs(user, [&file] { return ::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0 ? 0 : errno; });
    if (error == 0) continue;
    return FailedPrecondition(
        "pool {}: {}: the plugin works as user {}:{}: see that this user may read it, and may pass all directories "
        "above it",
        pool.name, Message(ErrnoStatus(error, "read the key file", file)), user.uid, user.gid);
  }
  return absl::OkStatus();
}

absl::Status CheckEmpty(const std::string& catalog, const std::vector<PoolConfig>& pools,
                        const std::string& state_dir) {
  std::ptrdiff_t count = 0;
  std::vector<std::string> directories;
  for (const PoolConfig& pool : pools) {
    const BackendType& type = TypeOf(pool.kind);
    const std::string directory = type.directory(pool, state_dir);
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> names, EntriesOrNone(directory));
    const std::ptrdiff_t here = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return !IdOfFile(name, type.entry_suffix).empty();
    });
    if (here != 0) directories.push_back(Quote(directory));
    count += here;
  }
  if (count == 0) return absl::OkStatus();
  return FailedPrecondition(
      "the volume catalog {} is missing or empty, and {} volume(s) or snapshot(s) lie in {}: put a copy of the catalog "
      "back (docs/backup.md); or, to begin anew without them, move them away and start the plugin again",
      Quote(catalog), count, fmt::join(directories, ", "));
}

constexpr std::chrono::seconds kRootPatience{1};

struct RealRoot {
  std::string path;
  bool exists = true;
};

// The missing end of a path, which somebody may make later, stays as it is.
absl::StatusOr<RealRoot> Resolve(const std::string& root) {
  std::string known = root, missing;
  for (;;) {
    const absl::StatusOr<RealDirectory> directory = OpenRealDirectory(known);
    if (directory.ok()) {
      if (directory->path != known) MOORING_RETURN_IF_ERROR(CheckNoDoubtfulLink(*directory));
      const std::string above = directory->path == "/" ? "" : directory->path;
      return RealRoot{missing.empty() ? directory->path : above + missing, missing.empty()};
    }
    if (!absl::IsNotFound(directory.status()) || known == "/") return directory.status();
    missing.insert(0, fmt::format("/{}", NameOf(known)));
    known = ParentOf(known);
  }
}

// A mount root may lie on a filesystem whose server is gone. Then only another process may wait for it.
bool Answers(const std::string& root) {
  const pid_t child = ::fork();
  if (child < 0) return true;
  if (child == 0) ::_exit(Resolve(root).ok() ? 0 : 1);
  const bool ended = EndsWithin(OpenPidFd(child), kRootPatience);
  if (!ended) ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, ended ? 0 : WNOHANG);
  return ended;
}

// Every target below such a root would be refused, with advice that contradicts this flag.
absl::Status CheckMayHoldTargets(const std::string& root, const Config& config) {
  const auto refuse = [&root](const std::string& where) {
    return FailedPrecondition("--mount-root {} lies in {}, where nothing is ever mounted: choose another directory",
                              Quote(root), where);
  };
  for (const std::string& system : ForbiddenTrees({})) {
    if (root != "/" && IsBelow(root, system)) return refuse("the directory of the system " + Quote(system));
  }
  if (IsBelow(root, config.state_dir)) return refuse("the state directory " + Quote(config.state_dir));
  for (const PoolConfig& pool : config.pools) {
    if (!pool.path.empty() && IsBelow(root, pool.path)) return refuse("the directory of pool " + pool.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RealPathOf(const std::string& root, bool given) {
  if (!Answers(root)) {
    log::Warning("a mount root does not answer: its path is taken as it is", {{"mount_root", root}});
    return root;
  }
  const absl::StatusOr<RealRoot> real = Resolve(root);
  if (!given) return real.ok() ? real->path : root;
  if (!real.ok()) return FailedPrecondition("--mount-root {}: {}", Quote(root), Message(real.status()));
  if (!real->exists) {
    log::Warning("a mount root does not exist yet: nothing can be mounted below it until it does",
                 {{"mount_root", root}});
  }
  return real->path;
}

}  // namespace

absl::Status CheckWritable(const std::string& directory, std::string_view what) {
  const int error = ErrnoOfAccess(directory);
  return error == 0 ? absl::OkStatus() : CannotWrite(error, directory, what, {::geteuid(), ::getegid()});
}

absl::Status CheckBeginsEmpty(const std::string& catalog, const Config& config) {
  std::vector<PoolConfig> pools = config.pools;
  std::erase_if(pools, [](const PoolConfig& pool) { return pool.shared; });
  return CheckEmpty(catalog, pools, config.state_dir);
}

absl::Status CheckSharedBeginsEmpty(const std::string& catalog, const PoolConfig& pool) {
  return CheckEmpty(catalog, {pool}, "");
}

absl::StatusOr<Config> PrepareDirectories(Config config) {
  MOORING_ASSIGN_OR_RETURN(config.state_dir, PrepareStateDir(config));
  const bool is_first_start = ::access((config.state_dir + "/catalog.db").c_str(), F_OK) != 0;
  for (PoolConfig& pool : config.pools) {
    const absl::Status host = TypeOf(pool.kind).check_host(pool, is_first_start);
    if (absl::IsUnavailable(host)) {
      log::Error("a pool is not there, and the other pools are served without it", {{"cause", Message(host)}});
      pool.away = Message(host);
      continue;
    }
    MOORING_RETURN_IF_ERROR(host);
    MOORING_RETURN_IF_ERROR(CheckKeysReadable(pool, UserOf(config)));
    if (TypeOf(pool.kind).own_mount != nullptr) {
      MOORING_ASSIGN_OR_RETURN(pool.path, MakeMountPlace(config, pool.name));
    }
    if (TypeOf(pool.kind).owns_path) {
      MOORING_ASSIGN_OR_RETURN(pool.path, PreparePool(pool, config));
    }
  }
  MOORING_RETURN_IF_ERROR(CheckApart(config.pools));
  return config;
}

absl::Status ResolveMountRoots(Config& config) {
  const bool checked = config.mount_roots_given && config.mounter == MounterKind::kHelper;
  std::vector<std::string> roots;
  for (const std::string& root : config.mount_roots) {
    MOORING_ASSIGN_OR_RETURN(const std::string real, RealPathOf(root, config.mount_roots_given));
    if (checked) MOORING_RETURN_IF_ERROR(CheckMayHoldTargets(real, config));
    if (real != root) {
      log::Info("a mount root leads through a symbolic link", {{"mount_root", root}, {"real", real}});
      config.root_links.push_back({root, real});
    }
    roots.push_back(real);
  }
  config.mount_roots = std::move(roots);
  return absl::OkStatus();
}

}  // namespace mooring
