#include "mounter/lvm/lvm_words.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/process/child_output.h"

namespace mooring {
namespace {

struct Words {
  std::string_view part;  // of a message of lvm 2.03
  absl::StatusCode code;
  std::string_view advice;
};

using enum absl::StatusCode;

constexpr std::string_view kMakeRoom =
    "; add a disk (vgextend), enlarge the thin pool (lvextend), or delete volumes or snapshots";
constexpr std::string_view kCloseIt = "; unpublish and unstage it, and end what else has it open";
constexpr std::string_view kConnect = "; connect the missing disks, or see what vgs and pvs list";
constexpr std::string_view kLoadModule = "; load the device mapper: modprobe dm-mod dm-thin-pool";
constexpr std::string_view kRepair = "; see lvmthin(7), \"Metadata check and repair\": lvconvert --repair";

// The first row that fits counts. No name of a volume contains a blank, so none of them fits by its name.
constexpr std::array<Words, 28> kWords = {{
    {"nsufficient free", kResourceExhausted, kMakeRoom},
    {"nsufficient suitable", kResourceExhausted, kMakeRoom},
    {"nsufficient extents", kResourceExhausted, kMakeRoom},
    {"reached threshold", kResourceExhausted, kMakeRoom},
    {"out of data space", kResourceExhausted, kMakeRoom},
    {"No space left on device", kResourceExhausted, kMakeRoom},
    {"Not enough ", kResourceExhausted, kMakeRoom},
    {"already in use", kFailedPrecondition, ""},  // a name
    {" in use", kFailedPrecondition, kCloseIt},
    {"is used by another device", kFailedPrecondition, kCloseIt},
    {"is mounted", kFailedPrecondition, kCloseIt},
    {"Device or resource busy", kFailedPrecondition, kCloseIt},
    {"Can't get lock", kAborted, "; another command changes the group: call again"},
    {"same name", kFailedPrecondition, "; rename a group: vgrename UUID NEW"},
    {"Failed to find logical volume", kNotFound, ""},
    {"not found in volume group", kNotFound, ""},
    {"\" not found", kUnavailable, kConnect},  // of a group
    {"Cannot process volume group", kUnavailable, kConnect},
    {"PVs are missing", kUnavailable, kConnect},
    {"missing PVs", kUnavailable, kConnect},
    {"Couldn't find device with uuid", kUnavailable, kConnect},
    {"Refusing activation of partial", kUnavailable, kConnect},
    {"/dev/mapper/control", kFailedPrecondition, kLoadModule},
    {"communicate with kernel device-mapper", kFailedPrecondition, kLoadModule},
    {"not detected in your kernel", kFailedPrecondition, kLoadModule},
    {"transaction_id", kFailedPrecondition, kRepair},
    {"thin_check: execvp failed", kFailedPrecondition, "; install the package thin-provisioning-tools"},
    {"repair", kFailedPrecondition, kRepair},
}};

// lvm says "Please remove" of the filter that it does not need (mounter/lvm/lvm_filter.h).
bool IsWarning(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line.starts_with("WARNING:") || line.starts_with("Please remove the lvm.conf ");
}

// Null also for warnings alone.
const Words* Find(std::string_view words) {
  if (IsWarning(words)) return nullptr;
  const auto* const found = std::find_if(
      kWords.begin(), kWords.end(), [&](const Words& row) { return words.find(row.part) != std::string_view::npos; });
  return found == kWords.end() ? nullptr : found;
}

}  // namespace

std::string TellingWords(const std::string& output) {
  std::string telling;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    const std::string_view line = std::string_view(output).substr(at, end - at);
    if (!line.empty() && !IsWarning(line)) telling.append(line).append("\n");
    at = end + 1;
  }
  return OneLine(telling.empty() ? output : telling);
}

absl::StatusCode CodeOfLvmWords(std::string_view words) {
  const Words* const row = Find(words);
  return row == nullptr ? kFailedPrecondition : row->code;
}

bool MeansInUse(std::string_view words) {
  const Words* const row = Find(words);
  return row != nullptr && row->advice == kCloseIt;
}

absl::Status LvmFailure(std::string_view doing, const CommandResult& result) {
  if (result.WasKilled()) {
    const int signal = result.exit_code - 128;
    return Aborted("{}: lvm was killed by signal {} ({}), which may leave devices suspended: call again", doing, signal,
                   ::strsignal(signal));
  }
  const Words* const row = Find(result.output);
  return ErrorBuilder(CodeOfLvmWords(result.output))("{}: lvm ended with {}: {}{}", doing, result.exit_code,
                                                     Quote(result.output, 2048), row == nullptr ? "" : row->advice);
}

}  // namespace mooring
