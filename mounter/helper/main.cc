// mooring-mounter: the spawner, and the mount helpers that it forks. mounter/helper/spawner.h has the picture.
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "base/file/unique_fd.h"
#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/version.h"
#include "mounter/copy/freeze.h"
#include "mounter/helper/guarded_stack.h"
#include "mounter/helper/helper_flags.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/spawner.h"
#include "mounter/mount/scratch.h"
#include "mounter/process/helper_calls.h"
#include "mounter/process/privileges.h"

namespace {

// Time for the calls of a plugin that was killed, enough for a mount. A program that formats or checks a filesystem
// goes on without the helper, and keeps its image locked (mounter/image/image.h).
constexpr std::chrono::milliseconds kPatience{200};

int Fail(const absl::Status& status) {
  fmt::print(stderr, "mooring-mounter: {}\n", mooring::Message(status));
  return 1;
}

// A service manager or a terminal sends these signals to the whole process group. The helper has to outlive the plugin,
// which may need it until its end. SIGPIPE comes from a log that nobody reads any more.
void BlockSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

int Serve(const mooring::UniqueFd& control, const mooring::HelperPolicy& policy) {
  ::prctl(PR_SET_NAME, "mooring-mounter");
  mooring::ReleaseWhatTheStartUsed();
  mooring::RemoveDeadScratches();
  mooring::GuardedStack stack(policy);
  const absl::Status served = mooring::ServeHelper(control, stack.mounter, kPatience);
  if (served.ok()) {
    mooring::RemoveScratch();
    return 0;
  }
  // Leaves the scratch to the next helper: a thread that hangs still uses it.
  mooring::ThawAllForGood();  // a running copy then fails
  mooring::log::Error("the mount helper ends in the middle of a call", {{"cause", mooring::Message(served)}});
  ::_exit(1);  // without destructors: a thread still uses these objects
}

absl::Status Run(const mooring::HelperFlags& flags) {
  MOORING_RETURN_IF_ERROR(mooring::log::Setup(flags.log_level, flags.log_format));
  struct stat status = {};
  if (::fstat(mooring::kSpawnerSocket, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return mooring::FailedPrecondition(
        "mooring-mounter is started by mooring-plugin; to mount by hand, use: mooring mount");
  }
  ::fcntl(mooring::kSpawnerSocket, F_SETFD, FD_CLOEXEC);
  ::close_range(mooring::kSpawnerSocket + 1, ~0U, 0);  // descriptors that the plugin inherited
  ::prctl(PR_SET_NAME, "mooring-spawner");
  ::mallopt(M_ARENA_MAX, 2);  // few arenas: the threads wait for the kernel, not for memory
  BlockSignals();
  mooring::RaiseOpenFileLimit();
  std::vector<int> kept;
  for (const mooring::Privilege& privilege : mooring::HelperPrivileges()) kept.push_back(privilege.capability);
  MOORING_RETURN_IF_ERROR(mooring::KeepOnly(kept));
  const bool maps_devices = !flags.policy.lvm_pools.empty() || !flags.policy.encrypted_pools.empty();
  MOORING_RETURN_IF_ERROR(mooring::ConfineHelperCalls(maps_devices));
  mooring::ReleaseWhatTheStartUsed();
  return mooring::RunSpawner(mooring::UniqueFd(mooring::kSpawnerSocket),
                             [&](const mooring::UniqueFd& control) { return Serve(control, flags.policy); });
}

}  // namespace

int main(int argc, char** argv) {
  mooring::FillStandardFiles();
  mooring::IgnoreWriteSignals();
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    fmt::print("mooring-mounter {} ({})\n", mooring::Version(), mooring::Commit());
    return 0;
  }
  const absl::StatusOr<mooring::HelperFlags> flags = mooring::ParseHelperFlags(argc, argv);
  if (!flags.ok()) return Fail(flags.status());
  const absl::Status status = Run(*flags);
  return status.ok() ? 0 : Fail(status);
}
