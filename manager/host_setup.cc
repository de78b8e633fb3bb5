#include "manager/host_setup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/path.h"
#include "base/file/private_file.h"
#include "base/file/whole_file.h"
#include "base/host.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/etcd/etcd_state.h"
#include "manager/state/host_notes.h"
#include "manager/state/keys.h"
#include "manager/state/sqlite_state.h"
#include "mounter/mount/change_propagation.h"

namespace mooring::manager {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> MakeDirectory(std::string_view what, const std::string& path, mode_t others_have) {
  std::error_code error;
  const mode_t before = ::umask(others_have);
  fs::create_directories(path, error);
  ::umask(before);
  if (error) return ErrnoStatus(error.value(), fmt::format("make {}", what), path);
  const fs::path real = fs::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("find {}", what), path);
  return real.string();
}

// A user who may write in it could replace the manager's files.
absl::StatusOr<std::string> MakeOwnDirectory(std::string_view what, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(std::string real, MakeDirectory(what, path, 0077));
  struct stat status = {};
  if (::stat(real.c_str(), &status) != 0) return ErrnoStatus(errno, fmt::format("inspect {}", what), real);
  if (status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return real;
  return FailedPrecondition(
      "other users may write in {} {} (owner {}, mode {:o}): give the manager a directory of its own", what,
      Quote(real), status.st_uid, status.st_mode & 07777);
}

// Empty if the file does not exist.
absl::StatusOr<std::string> FirstLineOf(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (absl::IsNotFound(text.status())) return "";
  MOORING_RETURN_IF_ERROR(text.status());
  return text->substr(0, text->find('\n'));
}

// The visible mount that contains `path`; nullopt: "/" is not the root of a mount, as after chroot(2).
absl::StatusOr<std::optional<ListedMount>> MountOf(std::string path, Mounts& kernel) {
  std::optional<MountInfo> visible;  // Find takes no "/"
  for (; !visible && !path.empty() && path != "/"; path = ParentOf(path)) {
    MOORING_ASSIGN_OR_RETURN(const PathInfo info, kernel.Find(path));
    visible = info.mount;
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> mounts, kernel.List("/"));
  std::optional<ListedMount> around;
  for (const ListedMount& mount : mounts) {
    if (visible ? mount.id == visible->id : mount.target == "/") around = mount;
  }
  return around;
}

absl::StatusOr<std::size_t> CountRecords(State& local) {
  std::size_t count = 0;
  for (const std::string& prefix : MovedPrefixes()) {
    MOORING_ASSIGN_OR_RETURN(const Listing listing, local.List(prefix));
    count += listing.values.size();
  }
  return count;
}

// During a move, the volumes and claims may be in both states.
absl::Status CheckNotMoving(State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<MoveNote> note, ReadMoveNote(local, host));
  if (!note) return absl::OkStatus();
  return FailedPrecondition(
      "a move of the volumes and claims {} the shared state {} was interrupted: complete it by repeating 'mooring "
      "manager migrate --to {}' (docs/hosts.md)",
      note->to == MoveNote::To::kShared ? "to" : "from", note->cluster,
      note->to == MoveNote::To::kShared ? "etcd://..." : "sqlite");
}

}  // namespace

absl::StatusOr<Config> MakeDirectories(const Config& config) {
  Config made = config;
  const std::string socket_directory(ParentOf(config.socket_path));
  if (!socket_directory.empty()) {
    MOORING_RETURN_IF_ERROR(MakeDirectory("the directory of the socket", socket_directory, 0022).status());
  }
  MOORING_ASSIGN_OR_RETURN(made.state_dir, MakeOwnDirectory("the state directory", config.state_dir));
  MOORING_ASSIGN_OR_RETURN(made.root, MakeOwnDirectory("the root of the mounts", config.root));
  MOORING_ASSIGN_OR_RETURN(made.runtime_dir, MakeOwnDirectory("the directory of the sockets", config.runtime_dir));
  return made;
}

absl::StatusOr<std::string> KeepHostName(const std::string& state_dir, const std::string& asked) {
  const std::string path = state_dir + "/host";
  MOORING_ASSIGN_OR_RETURN(const std::string recorded, FirstLineOf(path));
  if (!recorded.empty() && (asked.empty() || asked == recorded)) return recorded;
  if (!recorded.empty()) {
    return FailedPrecondition("the records in {} belong to host {}, but --host is {}: use --host {}", Quote(state_dir),
                              Quote(recorded), Quote(asked), recorded);
  }
  const std::string name = asked.empty() ? HostName() : asked;
  MOORING_RETURN_IF_ERROR(Annotate(CheckName("the host's name", name), "choose another with --host"));
  MOORING_RETURN_IF_ERROR(WritePrivateFile(path, name + "\n", Outlives::kAPowerCut));
  return name;
}

// Both files are written after the first state is on disk.
absl::Status CheckBeginsEmpty(const std::string& state_dir) {
  for (const char* const name : {"host", "id"}) {
    const std::string path = fmt::format("{}/{}", state_dir, name);
    MOORING_ASSIGN_OR_RETURN(const std::string recorded, FirstLineOf(path));
    if (recorded.empty()) continue;
    return FailedPrecondition(
        "the manager's state {} is missing or empty, but {} shows that there was one: restore a copy of the state "
        "(docs/backup.md); or, to start with an empty state, move the files host and id away and register the volumes "
        "again",
        Quote(state_dir + "/state.db"), Quote(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> KeepManagerId(const std::string& state_dir) {
  constexpr std::size_t kBytes = 8;
  const std::string path = state_dir + "/id";
  MOORING_ASSIGN_OR_RETURN(std::string recorded, FirstLineOf(path));
  if (!recorded.empty()) return recorded;
  std::string id = RandomHex(kBytes);
  MOORING_RETURN_IF_ERROR(WritePrivateFile(path, id + "\n", Outlives::kAPowerCut));
  return id;
}

absl::Status ShareRoot(const std::string& root, Mounts& kernel) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<ListedMount> mount, MountOf(root, kernel));
  if (mount && mount->shared()) return absl::OkStatus();
  if (mount && mount->target == root) return ChangePropagation(root, Propagation::kShared, false);
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedMount> below, kernel.List(root));
  BindRequest bind;
  bind.source = root;
  bind.target = root;
  bind.recursive = !below.empty();  // so that the bind does not hide volumes that are in use
  bind.propagation = Propagation::kShared;
  return Annotate(kernel.Bind(bind), "make the root of the mounts a shared mount");
}

absl::StatusOr<std::unique_ptr<State>> OpenLocalState(const std::string& state_dir) {
  return OpenSqliteState(state_dir + "/state.db", [&] { return CheckBeginsEmpty(state_dir); });
}

absl::StatusOr<std::unique_ptr<State>> OpenSharedState(const Config& config, State& local) {
  MOORING_RETURN_IF_ERROR(CheckNotMoving(local, config.host));
  MOORING_ASSIGN_OR_RETURN(const std::string joined, JoinedCluster(local, config.host));
  if (!config.etcd) {
    if (joined.empty()) return nullptr;
    return FailedPrecondition(
        "the volumes and claims of this host are in the shared state {} (etcd), and --state is sqlite: give the "
        "--state of before, or move them back with 'mooring manager migrate --to sqlite' (docs/hosts.md)",
        joined);
  }
  MOORING_ASSIGN_OR_RETURN(const std::size_t records, CountRecords(local));
  if (records != 0) {
    return FailedPrecondition(
        "{} still has {} records of volumes, which --state {} would hide: move them with 'mooring manager migrate --to "
        "{}' (docs/hosts.md)",
        Quote(config.state_dir + "/state.db"), records, config.etcd->connection.endpoints,
        config.etcd->connection.endpoints);
  }
  EtcdSettings settings = *config.etcd;
  settings.host = config.host;
  settings.cluster = joined;
  MOORING_ASSIGN_OR_RETURN(settings.id, LeaseHolder(config.state_dir));
  return OpenEtcdState(settings);
}

absl::StatusOr<std::string> LeaseHolder(const std::string& state_dir) {
  MOORING_ASSIGN_OR_RETURN(const std::string id, KeepManagerId(state_dir));
  MOORING_ASSIGN_OR_RETURN(const std::string boot, BootId());
  return fmt::format("{}@{}", id, boot);
}

absl::StatusOr<std::string> JoinedCluster(State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, local.Get(JoinedClusterKey(host)));
  return stored ? stored->value : "";
}

absl::Status KeepCluster(State& shared, State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> cluster, shared.Get(ClusterKey()));
  MOORING_ASSIGN_OR_RETURN(const std::string joined, JoinedCluster(local, host));
  if (!cluster || cluster->value == joined) return absl::OkStatus();
  Transaction transaction;
  transaction.puts = {{.key = JoinedClusterKey(host), .value = cluster->value}};
  return local.Commit(transaction).status();
}

}  // namespace mooring::manager
