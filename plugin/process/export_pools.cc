#include "plugin/process/export_pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/deadline.h"
#include "base/file/file_lock.h"
#include "base/file/path.h"
#include "base/file/real_directory.h"
#include "base/file/whole_file.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "mounter/sys/syscalls.h"
#include "plugin/backends/registry.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/process/shared_pools.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kRetry{5}, kAskEvery{2}, kMountPatience{40}, kStartPatience{30};
constexpr std::chrono::seconds kHostIsGone{30};
constexpr std::chrono::seconds kReconcileEvery{300}, kLongestPause{20};  // between reconciles that fail: 5 s at first
constexpr int kRenewEvery = 5;                                           // questions
constexpr std::string_view kAddress = "addr=";
constexpr char kMountInfo[] = "/proc/self/mountinfo";

// Others may pass the first directory, and only the plugin's user the second.
constexpr std::array kBases = {"/run/mooring-nfs", "/dev/shm/mooring-nfs"};

absl::Status MakeBase(const std::string& base) {
  if (::mkdir(base.c_str(), 0711) != 0 && errno != EEXIST) return ErrnoStatus(errno, "make the directory", base);
  struct stat status = {};
  if (::lstat(base.c_str(), &status) != 0) return ErrnoStatus(errno, "inspect", base);
  if (S_ISDIR(status.st_mode) && status.st_uid == 0 && (status.st_mode & 0022) == 0) return absl::OkStatus();
  return FailedPrecondition("{} belongs to somebody else, or is open to others: remove it", Quote(base));
}

std::string FirstLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line == "(null)" ? "" : line;
}

// The name in the owner of a client of NFSv4.1 (fs/nfs/nfs4proc.c): the host's name, and an identifier if there is one.
std::string NameForServers() {
  std::string identifier = FirstLineOf("/sys/fs/nfs/net/nfs_client/identifier");
  if (identifier.empty()) identifier = FirstLineOf("/sys/module/nfs/parameters/nfs4_unique_id");
  return identifier.empty() ? HostName() : HostName() + "/" + identifier;
}

std::string HostFile(const std::string& records, const std::string& host) {
  return fmt::format("{}/host-{:016x}", records, HashOf(host));
}

// Writes the text, and returns the time of the server's clock at which that was.
absl::StatusOr<std::chrono::seconds> WriteAndLook(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status = {};
  if (!file.ok() || ::pwrite(file.get(), text.data(), text.size(), 0) < 0 || ::fsync(file.get()) != 0 ||
      ::fstat(file.get(), &status) != 0) {
    return ErrnoStatus(errno, "write to", path);
  }
  return std::chrono::seconds(status.st_mtim.tv_sec);
}

absl::Status NoLookAt(const std::string& calls, const std::string& tasks, int error) {
  if (error == ETIMEDOUT) {
    return absl::DeadlineExceededError(fmt::format("the server of {} has not answered", Quote(calls)));
  }
  if (error != ESTALE) return ErrnoStatus(error, "ask the server of", calls);
  return FailedPrecondition(
      "the directory that is mounted at {} is no longer on the server: bring it back there, or stop the plugin, "
      "unmount it (umount -l {} {}), and start the plugin again",
      Quote(calls), ShellQuote(calls), ShellQuote(tasks));
}

absl::Status CheckOwner(const PoolConfig& pool, const std::string& source) {
  struct stat status = {};
  const std::string calls = PlaceForCalls(pool.path);
  if (::stat(calls.c_str(), &status) != 0) return NoLookAt(calls, pool.path, errno);
  if (status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "{} has the owner {} and the mode {:o}, and only the plugin may write there: on the server, make a directory in "
      "it (install -d -m 0755 -o {} -g {} DIRECTORY), and name that as export, with no_root_squash (exports(5))",
      Quote(source), status.st_uid, status.st_mode & 07777, ::geteuid(), ::getegid());
}

// Both mounts lead to one server, which may have several addresses.
absl::Status CheckSameServer(const OwnMount& own) {
  MOORING_ASSIGN_OR_RETURN(const std::string mounts, ReadWholeFile(kMountInfo));
  const std::string calls = AddressOfMount(mounts, own.calls.target),
                    tasks = AddressOfMount(mounts, own.request.target);
  if (calls == tasks) return absl::OkStatus();
  return FailedPrecondition(
      "{} is mounted from {}, and {} from {}: stop the plugin, unmount both (umount -l {} {}), and start the plugin "
      "again",
      Quote(own.calls.target), calls, Quote(own.request.target), tasks, ShellQuote(own.calls.target),
      ShellQuote(own.request.target));
}

absl::Status MakeRecordsOn(const std::string& source, const std::string& records) {
  const absl::Status made = MakeSharedRecords(records);
  if (!absl::IsFailedPrecondition(made)) return made;
  return FailedPrecondition("{}: see that the server exports {} with rw and no_root_squash (exports(5))", Message(made),
                            Quote(source));
}

PoolConfig AtPlaceForCalls(PoolConfig pool) {
  pool.path = PlaceForCalls(pool.path);
  return pool;
}

}  // namespace

// Each line ends with the options of the filesystem; its fifth field is the place.
std::string AddressOfMount(const std::string& mount_info, const std::string& place) {
  std::istringstream lines(mount_info);
  std::string address;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5; ++i) fields >> field;
    if (field != place) continue;
    address.clear();
    std::istringstream options(line.substr(line.rfind(' ') + 1));
    for (std::string option; std::getline(options, option, ',');) {
      if (option.starts_with(kAddress)) address = option.substr(kAddress.size());
    }
  }
  return address;
}

// A look at the root of a mount for tasks never waits for its server, with AT_STATX_DONT_SYNC.
absl::Status CheckMounts(const std::string& calls, const std::string& tasks) {
  struct statx of_calls = {}, of_tasks = {};
  for (const auto& [place, flags, root] :
       {std::tuple(calls, AT_STATX_FORCE_SYNC, &of_calls), std::tuple(tasks, AT_STATX_DONT_SYNC, &of_tasks)}) {
    if (::statx(AT_FDCWD, place.c_str(), flags, STATX_BASIC_STATS, root) != 0) return NoLookAt(calls, tasks, errno);
    if ((root->stx_attributes & sys::kStatxAttrMountRoot) == 0) {
      return Unavailable("the mount at {} is gone", Quote(place));
    }
  }
  if (of_calls.stx_ino == of_tasks.stx_ino) return absl::OkStatus();
  return FailedPrecondition(
      "{} and {} show two directories of the server: stop the plugin, unmount both (umount -l {} {}), and start the "
      "plugin again",
      Quote(calls), Quote(tasks), ShellQuote(calls), ShellQuote(tasks));
}

absl::StatusOr<std::string> MakeMountPlace(const Config& config, const std::string& pool) {
  std::string base;
  absl::Status made;
  for (const char* const candidate : kBases) {
    base = candidate;
    made = MakeBase(base);
    if (made.ok()) break;
  }
  MOORING_RETURN_IF_ERROR(made);
  const std::string own = fmt::format("{}/{:016x}", base, HashOf(config.state_dir)), path = own + "/" + pool;
  MOORING_RETURN_IF_ERROR(MakeRealDirectory(own, config.user.uid, config.user.gid));
  // Without its mount a place takes no volume: its mode forbids it.
  for (const std::string& place : {path, PlaceForCalls(path)}) {
    if (::mkdir(place.c_str(), 0500) != 0 && errno != EEXIST) return ErrnoStatus(errno, "make the directory", place);
  }
  return path;
}

absl::Status CheckHostName(const std::string& records, const std::string& host, const std::string& boot_id) {
  const std::string file = HostFile(records, host);
  const std::string there = FirstLineOf(file);
  struct stat status = {};
  if (there.empty() || there == boot_id || ::stat(file.c_str(), &status) != 0) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::chrono::seconds now, WriteAndLook(records + "/clock", boot_id));
  if (now - std::chrono::seconds(status.st_mtim.tv_sec) > kHostIsGone) return absl::OkStatus();
  return FailedPrecondition(
      "another host with the name {} uses this pool, and NFS would take the two for one and lose locks: give each host "
      "its own name, or the module nfs its own nfs4_unique_id. If this host has just been started again, wait {} s",
      Quote(host), kHostIsGone.count());
}

absl::Status RenewHostName(const std::string& records, const std::string& host, const std::string& boot_id) {
  return WriteAndLook(HostFile(records, host), boot_id + "\n").status();
}

ExportPool::ExportPool(Parts parts)
    : parts_(std::move(parts)),
      place_(AtPlaceForCalls(parts_.pool)),
      records_(place_.path + std::string(kSharedRecords)) {
  thread_ = std::thread(&ExportPool::Run, this);
  reconciler_ = std::thread(&ExportPool::ReconcileWhenAsked, this);
}

ExportPool::~ExportPool() {
  Stop();
  thread_.join();
  reconciler_.join();
}

void ExportPool::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool ExportPool::StopsWithin(std::chrono::seconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return stopping_; });
}

void ExportPool::AskToReconcile() {
  const std::lock_guard<std::mutex> lock(mutex_);
  to_reconcile_ = true;
  changed_.notify_all();
}

bool ExportPool::AwaitsWork() {
  const auto end = std::chrono::steady_clock::now() + kReconcileEvery;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_ && !to_reconcile_ && !parts_.availability->TakeLeftWork() &&
         std::chrono::steady_clock::now() < end) {
    changed_.wait_for(lock, kAskEvery);
  }
  to_reconcile_ = false;
  return !stopping_;
}

// It may take minutes, and Watch asks the server meanwhile.
void ExportPool::ReconcileWhenAsked() {
  std::string said;
  std::chrono::seconds pause = kRetry;
  while (AwaitsWork()) {
    const absl::Status reconciled = parts_.reconcile();
    if (reconciled.ok()) {
      said.clear();
      pause = kRetry;
      continue;
    }
    if (std::exchange(said, Message(reconciled)) != Message(reconciled)) {
      log::Warning("a pool is not reconciled yet", {{"pool", parts_.pool.name}, {"cause", said}});
    }
    if (StopsWithin(pause)) return;
    pause = std::min(2 * pause, kLongestPause);
    AskToReconcile();
  }
}

void ExportPool::Run() {
  std::string said;
  do {
    absl::Status status = Open();
    if (status.ok()) {
      said.clear();
      log::Info("the pool can be used", {{"pool", parts_.pool.name}});
      status = Watch();
      if (status.ok()) return;
    }
    parts_.availability->Failed(status);
    if (std::exchange(said, Message(status)) != Message(status)) {
      log::Error("a pool cannot be used yet", {{"pool", parts_.pool.name}, {"cause", Message(status)}});
    }
  } while (!StopsWithin(kRetry));
}

// A plugin that ran before may have left the mount.
absl::Status ExportPool::Mount(const OwnMount& own, const MountRequest& asked, const std::string& other) {
  const DeadlineScope patience(DeadlineScope::Clock::now() + kMountPatience);
  MOORING_ASSIGN_OR_RETURN(const PathInfo info, parts_.mounter.Find(asked.target));
  if (info.mount && info.mount->source == asked.source) return absl::OkStatus();
  if (info.mount) {
    return FailedPrecondition("{} is a mount of {}: unmount it (umount {})", Quote(asked.target),
                              Quote(info.mount->source), asked.target);
  }
  MOORING_ASSIGN_OR_RETURN(const std::string mounts, ReadWholeFile(kMountInfo));
  std::vector<std::string> addresses = {AddressOfMount(mounts, other)};
  if (addresses.front().empty()) {
    MOORING_ASSIGN_OR_RETURN(addresses, parts_.resolver.Find(own.server));
  }
  absl::Status mounted;
  for (const std::string& address : addresses) {
    MountRequest request = asked;
    request.options.push_back({"addr", address});
    mounted = parts_.mounter.Mount(request);
    if (!absl::IsUnavailable(mounted)) break;
  }
  return mounted;
}

// The directory at the address may be another one than before, or have another host of this one's name. Before that is
// known, nothing is written there, and no file of the pool is locked: that would take the locks of the other host.
absl::Status ExportPool::Open() {
  const OwnMount own = TypeOf(parts_.pool.kind).own_mount(parts_.pool);
  const std::string& source = own.calls.source;
  MOORING_RETURN_IF_ERROR(Mount(own, own.calls, own.request.target));
  MOORING_RETURN_IF_ERROR(CheckOwner(parts_.pool, source));
  MOORING_RETURN_IF_ERROR(
      Annotate(parts_.catalog.files()->CheckIdentity(records_ + "/catalog.db", parts_.pool.name), source));
  MOORING_RETURN_IF_ERROR(CheckHostName(records_, NameForServers(), parts_.boot_id));
  MOORING_RETURN_IF_ERROR(MakeRecordsOn(source, records_));
  MOORING_RETURN_IF_ERROR(Mount(own, own.request, own.calls.target));
  MOORING_RETURN_IF_ERROR(CheckSameServer(own));
  MOORING_RETURN_IF_ERROR(CheckMounts(place_.path, parts_.pool.path));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd start, LockStart(records_, kStartPatience));
  MOORING_RETURN_IF_ERROR(CheckHostName(records_, NameForServers(), parts_.boot_id));
  MOORING_RETURN_IF_ERROR(RenewHostName(records_, NameForServers(), parts_.boot_id));
  presence_.reset();
  MOORING_RETURN_IF_ERROR(parts_.locks.ReopenFile(records_ + "/lock"));
  MOORING_ASSIGN_OR_RETURN(presence_, OpenMountedPool(parts_.config, parts_.boot_id, place_, parts_.catalog));
  parts_.availability->Answered();
  AskToReconcile();
  return absl::OkStatus();
}

absl::Status ExportPool::Watch() {
  for (int round = 1; !StopsWithin(kAskEvery); ++round) {
    const auto asked = Availability::Clock::now();
    const absl::Status looked = CheckMounts(place_.path, parts_.pool.path);
    if (absl::IsDeadlineExceeded(looked)) continue;  // the server is silent, which Availability tells
    MOORING_RETURN_IF_ERROR(looked);
    if (round % kRenewEvery == 0) {
      log::WarningIfFailed(RenewHostName(records_, NameForServers(), parts_.boot_id),
                           "this host's name is not renewed in a pool", {{"pool", parts_.pool.name}});
    }
    const bool was_silent = !parts_.availability->Check().ok();
    parts_.availability->Answered();
    if (was_silent) {
      const auto silent = std::chrono::duration_cast<std::chrono::seconds>(Availability::Clock::now() - asked);
      log::Warning("a file server answers again",
                   {{"pool", parts_.pool.name}, {"after_seconds", fmt::format("{}", silent.count())}});
      AskToReconcile();
    }
  }
  return absl::OkStatus();
}

}  // namespace mooring
