#include "manager/state/host_notes.h"

#include <optional>
#include <string_view>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::string_view kToShared = "to-shared ";
constexpr std::string_view kToLocal = "to-local ";

}  // namespace

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

absl::StatusOr<std::optional<MoveNote>> ReadMoveNote(State& local, const std::string& host) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, local.Get(MoveNoteKey(host)));
  if (!stored) return std::nullopt;
  for (const auto& [prefix, to] :
       {std::pair(kToShared, MoveNote::To::kShared), std::pair(kToLocal, MoveNote::To::kLocal)}) {
    if (stored->value.starts_with(prefix)) return MoveNote{.to = to, .cluster = stored->value.substr(prefix.size())};
  }
  return Internal("the record {} of the manager's state is damaged", Quote(stored->key));
}

Transaction::Put Noted(const std::string& host, const MoveNote& note) {
  const std::string_view prefix = note.to == MoveNote::To::kShared ? kToShared : kToLocal;
  return {.key = MoveNoteKey(host), .value = std::string(prefix) + note.cluster};
}

}  // namespace mooring::manager
