#include "cli/doctor/health.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <unordered_map>

#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/doctor/child.h"

namespace mooring::cli::doctor_area {
namespace {

bool IsBad(int answer) { return answer == kHangs || answer == kNotAsked || MeansBroken(answer); }

// fstatfs(2) fails for a dead FUSE server, fstat(2) for a filesystem that was shut down. open(2) with O_PATH triggers
// no automount; statfs(2) of a path does.
int Ask(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.ok()) return errno;
  struct statfs filesystem = {};
  if (::fstatfs(fd.get(), &filesystem) != 0) return errno;
  struct stat status = {};
  return ::fstat(fd.get(), &status) == 0 ? 0 : errno;
}

void AnswerFrom(const std::vector<Place>& places, const std::vector<std::size_t>& which, int answers) {
  for (const std::size_t i : which) {
    const int answer = Ask(places[i].path);
    if (::write(answers, &answer, sizeof(answer)) != sizeof(answer)) return;
  }
}

struct Round {
  std::vector<int> answers;  // of the first places in `which`
  bool hung = false;         // the place after them hangs
};

absl::StatusOr<Round> AskRound(const std::vector<Place>& places, const std::vector<std::size_t>& which,
                               std::chrono::milliseconds patience) {
  MOORING_ASSIGN_OR_RETURN(const ChildOutput output,
                           ReadFromChild([&](int fd) { AnswerFrom(places, which, fd); }, patience));
  Round round{.answers = std::vector<int>(output.bytes.size() / sizeof(int)), .hung = output.hung};
  if (!round.answers.empty())
    std::memcpy(round.answers.data(), output.bytes.data(), round.answers.size() * sizeof(int));
  if (round.answers.size() < which.size() && !round.hung) {
    return Internal("the process that checks the mounts was killed: try again");
  }
  if (round.answers.size() >= which.size()) round.hung = false;  // all have answered; the child is only slow to end
  return round;
}

// Drops the places from `which` that are on the filesystem of `hung`, or that are reached through it.
void SpareOthers(const std::vector<Place>& places, const Place& hung, std::vector<std::size_t>& which,
                 std::vector<int>& answers) {
  std::erase_if(which, [&](std::size_t i) {
    const bool same = hung.device != 0 && places[i].device == hung.device;
    const bool through = IsBelow(places[i].path, hung.path);
    if (through) answers[i] = kNotAsked;
    if (same) answers[i] = kHangs;
    return same || through;
  });
}

// The unmount here may have reached the other namespace by propagation.
std::string UmountCommand(const std::string& target, pid_t pid) {
  const std::string there = pid == 0 ? "" : fmt::format(" --pid {} --if-exists", pid);
  return fmt::format("mooring umount {}{}", ShellQuote(target), there);
}

// The commands that make waiting calls return. The name of a FUSE connection is the device number in the encoding of
// the kernel, include/linux/kdev_t.h; only that of fuseblk has a major number. umount(8) works in this namespace only.
std::vector<std::string> WakeCommands(const TableMount& mount, pid_t pid) {
  if (mount.fs_type.starts_with("fuse")) {
    const unsigned name = (major(mount.device) << 20U) | minor(mount.device);
    return {fmt::format("echo 1 > /sys/fs/fuse/connections/{}/abort", name)};
  }
  if (pid != 0) return {};
  return {fmt::format("umount -f {}", ShellQuote(mount.target))};
}

std::string Where(const TableMount& mount, pid_t pid) {
  return pid == 0 ? Quote(mount.target) : fmt::format("{} in the namespace of process {}", Quote(mount.target), pid);
}

Finding Hung(const TableMount& mount, pid_t pid) {
  Finding finding{"hung-mount", Severity::kProblem,
                  fmt::format("the {} filesystem mounted at {} does not answer: every process that uses it waits",
                              mount.fs_type, Where(mount, pid)),
                  WakeCommands(mount, pid)};
  finding.commands.push_back(UmountCommand(mount.target, pid));
  return finding;
}

Finding Broken(const TableMount& mount, int answer, pid_t pid) {
  return {"broken-mount",
          Severity::kProblem,
          fmt::format("the {} mount at {} is broken ({}): its filesystem was shut down or its server is gone. Unmount "
                      "it, then mount it again or publish the volume again",
                      mount.fs_type, Where(mount, pid), std::generic_category().message(answer)),
          {UmountCommand(mount.target, pid)}};
}

Finding Behind(const TableMount& mount, const TableMount& other, pid_t pid) {
  return {"behind-another",
          Severity::kNote,
          fmt::format("the {} mount at {} is behind the broken or hung mount at {}: its own state can be checked when "
                      "that mount is repaired or unmounted",
                      mount.fs_type, Where(mount, pid), Quote(other.target)),
          {}};
}

Finding ToFinding(const AskedMount& asked, pid_t pid) {
  Finding finding = asked.answer == kHangs ? Hung(*asked.mount, pid) : Broken(*asked.mount, asked.answer, pid);
  if (asked.mount->target == "/") finding.commands.clear();  // the root cannot be unmounted
  return finding;
}

using BadMounts = std::unordered_map<const TableMount*, int>;

// A bad mount on the path to `mount`, without `mount` itself; nullptr if there is none.
const TableMount* BadOnTheWay(const MountWalk& walk, const TableMount& mount, const BadMounts& bad) {
  const TableMount* at = walk.ParentOf(mount);
  for (std::size_t steps = 0; at != nullptr && steps <= bad.size() + 1000; ++steps) {
    if (bad.contains(at)) return at;
    at = walk.ParentOf(*at);
  }
  return nullptr;
}

void AddCovered(const MountWalk& walk, const std::vector<const TableMount*>& covered, const BadMounts& bad, pid_t pid,
                Findings& findings) {
  for (const TableMount* mount : covered) {
    const TableMount* cover = walk.Holding(mount->target);
    if (cover == nullptr) continue;
    const TableMount* other = bad.contains(cover) ? cover : BadOnTheWay(walk, *cover, bad);
    if (other != nullptr && other != mount) findings.push_back(Behind(*mount, *other, pid));
  }
}

}  // namespace

absl::StatusOr<std::vector<int>> AskPlaces(const std::vector<Place>& places, std::chrono::milliseconds patience) {
  std::vector<int> answers(places.size(), kNotAsked);
  std::vector<std::size_t> which(places.size());
  for (std::size_t i = 0; i < which.size(); ++i) which[i] = i;
  while (!which.empty()) {
    MOORING_ASSIGN_OR_RETURN(const Round round, AskRound(places, which, patience));
    const std::size_t answered = std::min(round.answers.size(), which.size());
    for (std::size_t i = 0; i < answered; ++i) answers[which[i]] = round.answers[i];
    which.erase(which.begin(), which.begin() + static_cast<std::ptrdiff_t>(answered));
    if (!round.hung) break;
    const std::size_t hung = which.front();
    SpareOthers(places, places[hung], which, answers);
    std::erase(which, hung);
    answers[hung] = kHangs;
  }
  return answers;
}

Findings FindBroken(const NamespaceView& view, const std::vector<AskedMount>& asked,
                    const std::vector<const TableMount*>& covered, pid_t pid) {
  BadMounts bad;
  for (const AskedMount& one : asked) {
    if (IsBad(one.answer)) bad.emplace(one.mount, one.answer);
  }
  if (bad.empty()) return {};
  const MountWalk walk(view);
  Findings findings;
  for (const AskedMount& one : asked) {
    if (!bad.contains(one.mount)) continue;
    const TableMount* other = BadOnTheWay(walk, *one.mount, bad);
    if (other != nullptr) {
      findings.push_back(Behind(*one.mount, *other, pid));
    } else if (one.answer != kNotAsked) {
      findings.push_back(ToFinding(one, pid));
    }
  }
  AddCovered(walk, covered, bad, pid, findings);
  return findings;
}

absl::StatusOr<Health> CheckHealth(const NamespaceView& view, const std::string& path, pid_t pid,
                                   std::chrono::milliseconds patience) {
  const MountWalk walk(view);
  const TableMount* const holding = walk.Holding(path);
  std::vector<AskedMount> asked;
  std::vector<const TableMount*> covered;
  std::vector<Place> places;
  for (const TableMount& mount : view.mounts) {
    if (!IsBelow(mount.target, path) && &mount != holding) continue;
    if (!walk.Reaches(mount)) {
      covered.push_back(&mount);
    } else if (mount.fs_type != "autofs") {  // answers for its daemon
      asked.push_back({&mount, 0});
      places.push_back({pid == 0 ? mount.target : fmt::format("/proc/{}/root{}", pid, mount.target), mount.device});
    }
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<int> answers, AskPlaces(places, patience));
  for (std::size_t i = 0; i < asked.size(); ++i) asked[i].answer = answers[i];
  return Health{.findings = FindBroken(view, asked, covered, pid), .mounts = asked.size() + covered.size()};
}

}  // namespace mooring::cli::doctor_area
