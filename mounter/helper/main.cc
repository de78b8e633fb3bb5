// mooring-mounter: the keeper of mount helpers, and the helpers it forks; mounter/helper/keeper.h has the picture.
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
#include "mounter/guard/guarded_mounter.h"
#include "mounter/guard/source_guard.h"
#include "mounter/guard/target_guard.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/keeper.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/process/helper_calls.h"
#include "mounter/process/privileges.h"

namespace {

// For what a plugin that was killed had begun: enough for a mount. A program that makes or checks a filesystem goes on
// alone and keeps its image locked, mounter/image/image.h.
constexpr std::chrono::milliseconds kPatience{200};

int Fail(const absl::Status& status) {
  fmt::print(stderr, "mooring-mounter: {}\n", mooring::Message(status));
  return 1;
}

// A service manager, or a terminal, sends these to the whole group. The helper ends after its plugin, which may need it
// until then. And a log that nobody reads any more (SIGPIPE) must not end it either.
void BlockSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

int Serve(const mooring::UniqueFd& control, const mooring::Allowance& allowance) {
  ::prctl(PR_SET_NAME, "mooring-mounter");
  mooring::ReleaseWhatTheStartUsed();
  const mooring::SourceGuard sources(allowance.sources, allowance.label_prefix, allowance.volume_directories,
                                     allowance.device_links);
  const mooring::TargetGuard targets(mooring::ForbiddenTrees(allowance), allowance.kept_free);
  mooring::KernelMounter kernel(allowance.roots, sources, targets);
  mooring::GuardedMounter mounter(allowance, kernel, mooring::GuardedMounter::Sources::kCheckedByMounter);
  const absl::Status served = mooring::ServeHelper(control, mounter, kPatience);
  if (served.ok()) return 0;
  mooring::ThawAllForGood();  // of a copy under way, which then comes to nothing
  mooring::log::Error("the mount helper ends in the middle of a call", {{"cause", mooring::Message(served)}});
  ::_exit(1);  // to return would be to end what a thread uses still
}

absl::Status Run(const mooring::HelperFlags& flags) {
  MOORING_RETURN_IF_ERROR(mooring::log::Setup(flags.log_level, flags.log_format));
  struct stat status = {};
  if (::fstat(mooring::kKeeperSocket, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return mooring::FailedPrecondition("this program is started by mooring-plugin, not by hand (use: mooring mount)");
  }
  ::fcntl(mooring::kKeeperSocket, F_SETFD, FD_CLOEXEC);
  ::close_range(mooring::kKeeperSocket + 1, ~0U, 0);  // what whoever started the plugin left open for it
  ::prctl(PR_SET_NAME, "mooring-keeper");
  ::mallopt(M_ARENA_MAX, 2);  // its threads wait for the kernel, not for memory
  BlockSignals();
  mooring::RaiseOpenFileLimit();
  std::vector<int> kept;
  for (const mooring::Privilege& privilege : mooring::HelperPrivileges()) kept.push_back(privilege.capability);
  MOORING_RETURN_IF_ERROR(mooring::KeepOnly(kept));
  MOORING_RETURN_IF_ERROR(mooring::ConfineHelperCalls());
  mooring::ReleaseWhatTheStartUsed();
  return mooring::KeepHelpers(mooring::UniqueFd(mooring::kKeeperSocket),
                              [&](const mooring::UniqueFd& control) { return Serve(control, flags.allowance); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    fmt::print("mooring-mounter {} ({})\n", mooring::Version(), mooring::Commit());
    return 0;
  }
  const absl::StatusOr<mooring::HelperFlags> flags = mooring::ParseHelperFlags(argc, argv);
  if (!flags.ok()) return Fail(flags.status());
  const absl::Status status = Run(*flags);
  return status.ok() ? 0 : Fail(status);
}
