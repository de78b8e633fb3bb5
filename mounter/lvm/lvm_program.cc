#include "mounter/lvm/lvm_program.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "mounter/lvm/lvm_filter.h"
#include "mounter/lvm/lvm_words.h"

namespace mooring {
namespace {

constexpr std::chrono::minutes kReportLimit{1}, kChangeLimit{10};
constexpr int kReportFile = 3;  // the number of a held file in the child: mounter/process/command.h
constexpr std::int64_t kMostReportBytes = 64U << 20U;  // 200,000 volumes

// The settings of the host stay, but for these and the filter:
//   udev_sync, udev_rules  lvm makes the nodes itself: in its seccomp list there are no semaphores to wait for udev
//   monitoring, syslog, notify_dbus, use_lvmpolld  would start or ask daemons, by sockets
//   process_priority       the helper may not raise it
//   prefix                 lines begin without blanks
//   archive                a full /etc must not stop a deletion. The setting "backup" of the host is 1, unless somebody
//                          changed it, and keeps /etc/lvm/backup current
//   issue_discards         a deletion by mistake can be taken back: pvck(8) --dump metadata_search, vgcfgrestore(8)
//   report                 reports have all columns, and the names of all disks
constexpr const char* kSettings =
    "activation { udev_sync=0 udev_rules=0 monitoring=0 process_priority=0 } backup { archive=0 } "
    "global { wait_for_locks=1 use_lvmpolld=0 notify_dbus=0 } log { prefix=\"\" syslog=0 } "
    "report { compact_output=0 compact_output_cols=\"\" mark_hidden_devices=0 } ";

LvmCommand WithConfig(const LvmCommand& command, const std::string& filter) {
  LvmCommand whole = {"lvm", command.front(), "--config",
                      fmt::format("{}devices {{ issue_discards=0 {} }}", kSettings, filter)};
  whole.insert(whole.end(), command.begin() + 1, command.end());
  return whole;
}

// `command` begins with "lvm".
absl::StatusOr<CommandResult> RunWhole(const LvmCommand& command, ProgramKind kind, std::chrono::seconds limit,
                                       const std::vector<int>& held = {}, std::vector<std::string> environment = {}) {
  environment.emplace_back("LVM_SUPPRESS_FD_WARNINGS=1");
  MOORING_ASSIGN_OR_RETURN(CommandResult result, RunCommand(command, "lvm2", limit, held, environment, kind));
  result.output = TellingWords(result.output);
  return result;
}

absl::StatusOr<std::string> ReadReport(const UniqueFd& file) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, "look at the report of lvm");
  if (status.st_size > kMostReportBytes) return Internal("the report of lvm has {} bytes", status.st_size);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t have = 0; have < text.size();) {
    const ssize_t got = ::pread(file.get(), text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ErrnoStatus(got < 0 ? errno : EIO, "read the report of lvm");
    have += static_cast<std::size_t>(got);
  }
  return text;
}

// Advice and warnings on the standard output would break a report: it has a descriptor of its own. lvm closes all that
// it does not know from its environment.
absl::StatusOr<LvmReportText> RunReport(const LvmCommand& command) {
  const UniqueFd file(::memfd_create("report", MFD_CLOEXEC));
  if (!file.ok()) return ErrnoStatus(errno, "make a file in memory for the report of lvm");
  LvmReportText report;
  MOORING_ASSIGN_OR_RETURN(report.result, RunWhole(command, ProgramKind::kLvmReport, kReportLimit, {file.get()},
                                                   {fmt::format("LVM_REPORT_FD={}", kReportFile)}));
  MOORING_ASSIGN_OR_RETURN(report.json, ReadReport(file));
  return report;
}

absl::StatusOr<LvmHostFilters> AskForHostFilters() {
  constexpr std::string_view kDoing = "read the settings of lvm";
  const LvmCommand command = {
      "lvmconfig",      "--typeconfig",         "full", "--file", fmt::format("/proc/self/fd/{}", kReportFile),
      "devices/filter", "devices/global_filter"};
  const absl::StatusOr<LvmReportText> shown = RunReport(WithConfig(command, ""));
  if (!shown.ok()) return Annotate(shown.status(), kDoing);
  if (shown->result.exit_code != 0) return LvmFailure(kDoing, shown->result);
  return ParseHostFilters(shown->json);
}

// They are read once.
absl::StatusOr<LvmHostFilters> HostFilters() {
  static std::mutex mutex;
  static std::optional<LvmHostFilters> filters;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!filters) {
    MOORING_ASSIGN_OR_RETURN(filters, AskForHostFilters());
  }
  return *filters;
}

}  // namespace

absl::StatusOr<LvmCommand> Lvm::WithSettings(const LvmCommand& command) const {
  MOORING_ASSIGN_OR_RETURN(const LvmHostFilters host, HostFilters());
  return WithConfig(command, HidingFilter(host, hidden_));
}

absl::StatusOr<CommandResult> Lvm::Run(const LvmCommand& command) const {
  MOORING_ASSIGN_OR_RETURN(const LvmCommand whole, WithSettings(command));
  return RunWhole(whole, ProgramKind::kLvm, kChangeLimit);
}

absl::Status Lvm::Change(std::string_view doing, const LvmCommand& command) const {
  const absl::StatusOr<CommandResult> result = Run(command);
  if (!result.ok()) return Annotate(result.status(), doing);
  return result->exit_code == 0 ? absl::OkStatus() : LvmFailure(doing, *result);
}

absl::StatusOr<LvmReportText> Lvm::Report(std::string_view doing, const LvmCommand& command) const {
  LvmCommand whole = {command.front(), "--reportformat", "json", "--units", "b", "--nosuffix", "-qq"};
  whole.insert(whole.end(), command.begin() + 1, command.end());
  MOORING_ASSIGN_OR_RETURN(whole, WithSettings(whole));
  absl::StatusOr<LvmReportText> report = RunReport(whole);
  if (!report.ok()) return Annotate(report.status(), doing);
  return report;
}

}  // namespace mooring
