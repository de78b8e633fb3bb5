// Runs lvm. A change is never killed: between the suspension and the resumption of a device that would freeze its
// users.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/process/command.h"

namespace mooring {

// `command`: a subcommand of lvm(8), such as "lvcreate", and its arguments.
using LvmCommand = std::vector<std::string>;

struct LvmReportText {
  std::string json;
  CommandResult result;  // may have failed because of another group
};

// FAILED_PRECONDITION: lvm2 is not installed.
class Lvm {
 public:
  // `hidden`: the devices that lvm must not look into (mounter/lvm/lvm_filter.h).
  explicit Lvm(std::vector<std::string> hidden) : hidden_(std::move(hidden)) {}

  // Runs a command that changes something. DEADLINE_EXCEEDED: it still runs after 10 minutes. UNAVAILABLE: an earlier
  // one still does.
  absl::StatusOr<CommandResult> Run(const LvmCommand& command) const;

  // The same. Another exit code than 0 is the error of LvmFailure (mounter/lvm/lvm_words.h).
  absl::Status Change(std::string_view doing, const LvmCommand& command) const;

  // `command` is vgs or lvs with its columns. Sizes are in bytes, without a unit. DEADLINE_EXCEEDED: it was killed
  // after a minute.
  absl::StatusOr<LvmReportText> Report(std::string_view doing, const LvmCommand& command) const;

 private:
  absl::StatusOr<LvmCommand> WithSettings(const LvmCommand& command) const;

  std::vector<std::string> hidden_;
};

}  // namespace mooring
