#include "plugin/process/mount_roots.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/file/path.h"
#include "base/file/real_directory.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/guard/guarded_mounter.h"

namespace mooring {
namespace {

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
