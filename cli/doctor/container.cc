#include "cli/doctor/container.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::doctor_area {
namespace {

constexpr std::size_t kLeast = 12;  // docker ps shows 12 of 64 digits

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "4711 (name with ) in it) S 1 …"
pid_t ParentProcessOf(pid_t pid) {
  const std::string stat = ReadAll(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(") ");
  pid_t parent = 0;
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return parent;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

ProcessFacts FactsOf(pid_t pid) {
  ProcessFacts facts{.pid = pid, .parent = ParentProcessOf(pid), .mount_namespace = 0, .cgroup = {}, .command = {}};
  facts.mount_namespace = MountNamespaceId(pid).value_or(0);
  facts.cgroup = ReadAll(fmt::format("/proc/{}/cgroup", pid));
  facts.command = ReadAll(fmt::format("/proc/{}/cmdline", pid));
  std::replace(facts.command.begin(), facts.command.end(), '\0', ' ');
  return facts;
}

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// Adds the whole IDs in `text` that begin with `id`. A match inside a longer ID does not count.
void AddIds(std::string_view text, std::string_view id, std::set<std::string>& ids) {
  for (std::size_t at = text.find(id); at != std::string_view::npos; at = text.find(id, at + 1)) {
    if (at != 0 && IsHex(text[at - 1])) continue;
    const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), IsHex);
    ids.emplace(text.begin() + static_cast<std::ptrdiff_t>(at), end);
  }
}

bool Names(const std::string& text, const std::string& id) {
  std::set<std::string> ids;
  AddIds(text, id, ids);
  return !ids.empty();
}

// The ancestor of all processes whose mount namespace is not `own`. It need not have the lowest PID.
pid_t First(const std::vector<ProcessFacts>& processes, std::uint64_t own, const std::set<pid_t>& among) {
  std::set<pid_t> inside;
  for (const ProcessFacts& process : processes) {
    const bool apart = process.mount_namespace != 0 && process.mount_namespace != own;
    if (apart && among.contains(process.pid)) inside.insert(process.pid);
  }
  const auto first = std::find_if(processes.begin(), processes.end(), [&inside](const ProcessFacts& process) {
    return inside.contains(process.pid) && !inside.contains(process.parent);
  });
  return first == processes.end() ? 0 : first->pid;
}

pid_t FirstByCgroup(const std::vector<ProcessFacts>& processes, const std::string& id, std::uint64_t own) {
  std::set<pid_t> among;
  for (const ProcessFacts& process : processes) {
    if (Names(process.cgroup, id)) among.insert(process.pid);
  }
  return First(processes, own, among);
}

// For containerd-shim and conmon, whose children are the processes of the container.
pid_t FirstByCommand(const std::vector<ProcessFacts>& processes, const std::string& id, std::uint64_t own) {
  std::set<pid_t> watchers, among;
  for (const ProcessFacts& process : processes) {
    const bool watches =
        process.command.find("shim") != std::string::npos || process.command.find("conmon") != std::string::npos;
    if (watches && Names(process.command, id)) watchers.insert(process.pid);
  }
  for (const ProcessFacts& process : processes) {
    if (watchers.contains(process.parent)) among.insert(process.pid);
  }
  return First(processes, own, among);
}

absl::Status CheckId(const std::string& id) {
  if (id.size() >= kLeast && std::all_of(id.begin(), id.end(), IsHex)) return absl::OkStatus();
  return InvalidArgument("{} is not the ID of a container: give {} or more of its hexadecimal digits", Quote(id),
                         kLeast);
}

}  // namespace

std::vector<ProcessFacts> CollectProcesses() {
  std::vector<ProcessFacts> processes;
  for (const pid_t pid : Processes()) processes.push_back(FactsOf(pid));
  return processes;
}

absl::StatusOr<pid_t> FindContainer(const std::vector<ProcessFacts>& processes, const std::string& id,
                                    std::uint64_t own) {
  MOORING_RETURN_IF_ERROR(CheckId(id));
  std::set<std::string> ids;
  for (const ProcessFacts& process : processes) AddIds(process.cgroup, id, ids);
  if (ids.size() > 1) {
    return FailedPrecondition("several containers have an ID that begins with {}: give more digits", Quote(id));
  }
  if (const pid_t pid = FirstByCgroup(processes, id, own); pid != 0) return pid;
  if (const pid_t pid = FirstByCommand(processes, id, own); pid != 0) return pid;
  return NotFound("no process of the container {} runs on this host, or it shares this mount namespace", Quote(id));
}

}  // namespace mooring::cli::doctor_area
