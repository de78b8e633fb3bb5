#include "manager/state/boot.h"

#include <optional>

#include "base/file/path.h"
#include "base/status.h"
#include "manager/state/keys.h"

namespace mooring::manager {

std::string DockerDirectory(const std::string& state_dir) { return state_dir + "/docker"; }

bool IsAttachedForDocker(const AttachmentRecord& record, const std::string& state_dir) {
  return !record.attach_path.empty() && IsBelow(record.attach_path, DockerDirectory(state_dir));
}

absl::StatusOr<bool> IsFirstOfBoot(State& state, const std::string& host, const std::string& boot) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(BootStateKey(host)));
  return stored && stored->value != boot;
}

absl::Status KeepBoot(State& state, const std::string& host, const std::string& boot) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(BootStateKey(host)));
  if (stored && stored->value == boot) return absl::OkStatus();
  Transaction transaction;
  transaction.puts.push_back({BootStateKey(host), boot});
  return state.Commit(transaction).status();
}

}  // namespace mooring::manager
