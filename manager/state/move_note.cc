#include "manager/state/move_note.h"

#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

constexpr std::string_view kToShared = "to-shared ";
constexpr std::string_view kToLocal = "to-local ";

}  // namespace

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
