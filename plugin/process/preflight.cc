#include "plugin/process/preflight.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/deadline.h"
#include "base/file/whole_file.h"
#include "base/log.h"
#include "base/status.h"
#include "plugin/backends/registry.h"
#include "plugin/process/directories.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFresh{1};
constexpr std::chrono::seconds kPatience{2};  // with a check that hangs

// Init programs that container engines start in front of the program.
constexpr std::array<std::string_view, 5> kInits = {"docker-init", "tini", "catatonit", "dumb-init", "podman-init"};

constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO: the same on every Linux

ino_t NamespaceOf(const std::string& process, const char* kind) {  // 0: unknown
  struct stat status = {};
  return ::stat(fmt::format("/proc/{}/ns/{}", process, kind).c_str(), &status) == 0 ? status.st_ino : 0;
}

bool IsContainersInit(pid_t pid) {
  return std::find(kInits.begin(), kInits.end(), FirstLine(fmt::format("/proc/{}/comm", pid))) != kInits.end();
}

bool Has(const Config& config, bool (*is_it)(const PoolConfig&)) {
  return std::any_of(config.pools.begin(), config.pools.end(), is_it);
}

// The mapping of an encrypted image lies on a loop device.
bool UsesLoops(const PoolConfig& pool) {
  return TraitsOf(pool.kind).staging == Staging::kLoopDevice || TraitsOf(pool.kind).encrypted;
}

absl::Status CheckMapper() {
  constexpr char kControl[] = "/dev/mapper/control";
  if (::access(kControl, F_OK) == 0) return absl::OkStatus();
  return FailedPrecondition("{}: load the kernel's device mapper (modprobe dm_crypt)",
                            Message(ErrnoStatus(errno, "find", kControl)));
}

}  // namespace

// A parent outside this PID namespace has started a container. A visible parent is the starter or the container's init.
bool HasOwnMountNamespace() {
  const pid_t parent = ::getppid();
  if (parent == 0) return true;
  const ino_t here = NamespaceOf("self", "mnt"), there = NamespaceOf(fmt::format("{}", parent), "mnt");
  if (here == 0 || there == 0) return false;
  if (here != there) return true;
  return parent == 1 && NamespaceOf("self", "pid") != kFirstPidNamespace && IsContainersInit(parent);
}

HostPreflight::HostPreflight(const Config& config, Mounter& mounter) : state_dir_(config.state_dir), mounter_(mounter) {
  mounts_ = config.serves_node();
  encrypts_ = Has(config, [](const PoolConfig& pool) { return TraitsOf(pool.kind).encrypted; });
  if (!mounts_) return;
  if (config.shared_roots == SharedRoots::kRequire && config.mount_roots_given)
    needs_.seen_outside = config.mount_roots;
  std::erase(needs_.seen_outside, "/");  // "/" does not tell where the targets are
  const bool images = Has(config, UsesLoops);
  const bool others = Has(config, [](const PoolConfig& pool) { return !UsesLoops(pool); });
  needs_.loop_devices = images && !others;
  loops_for_some_ = images && others;
}

absl::Status HostPreflight::Check() {
  const std::unique_lock<std::mutex> alone(checking_, std::try_to_lock);
  if (!alone.owns_lock() || Clock::now() - checked_ < kFresh) return Last();
  const absl::Status now = RunChecks();
  checked_ = Clock::now();
  // A timeout or a missing helper is reported elsewhere, and says nothing about the host.
  if (now.ok() || absl::IsFailedPrecondition(now)) LogChange(now);
  return Last();
}

absl::Status HostPreflight::RunChecks() {
  MOORING_RETURN_IF_ERROR(CheckWritable(state_dir_, "the state directory"));
  const DeadlineScope patience(Clock::now() + kPatience);
  if (!warned_) WarnForSomePools();
  return !mounts_ ? absl::OkStatus() : mounter_.CheckNeeds(needs_);
}

void HostPreflight::WarnForSomePools() {
  warned_ = true;
  if (loops_for_some_) {
    log::WarningIfFailed(mounter_.CheckNeeds({.loop_devices = true}), "no volume of the image pools can be staged");
  }
  if (encrypts_) log::WarningIfFailed(CheckMapper(), "no volume of the encrypted pools can be made or staged");
}

absl::Status HostPreflight::CheckSeenOutside() {
  if (needs_.seen_outside.empty()) return absl::OkStatus();
  const DeadlineScope patience(Clock::now() + kPatience);
  return mounter_.CheckNeeds({.seen_outside = needs_.seen_outside});
}

void HostPreflight::LogChange(const absl::Status& now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (now == last_) return;
  if (now.ok()) log::Info("nothing is missing any more");
  if (!now.ok()) log::Error("something is missing that the plugin needs", {{"cause", Message(now)}});
  last_ = now;
}

absl::Status HostPreflight::Last() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return absl::Status(last_.code(), last_.message());
}

}  // namespace mooring
