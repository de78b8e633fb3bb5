// Moves volumes, their secrets, claims and snapshots between the local state of this host and the state that it shares
// with other hosts. Attachments and plugins stay local.
//
//   1. check    anything in the way is refused, before a change
//   2. note     in the local state (state/host_notes.h): the manager does not start until the move is complete
//   3. copy     in transactions of a hundred keys; a volume always comes with its claims
//   4. compare  the copies are read back
//   5. delete   the originals; the note goes with them
//
// A move that was interrupted at any point is completed by repeating it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "manager/migrate/moved_records.h"

namespace mooring::manager {

// Gives the records that were in the state from which they are moved. FAILED_PRECONDITION: the shared state has other
// records with the same keys, or the same volumes under other names; the message lists them. Or a move back was
// interrupted. INTERNAL: a copy differs from its original.
absl::StatusOr<MovedCounts> MoveToShared(const MoveEnds& ends);

// FAILED_PRECONDITION: other hosts are alive or hold claims; the message lists them. Claims of hosts that were declared
// lost are moved, too.
absl::StatusOr<MovedCounts> MoveToLocal(const MoveEnds& ends);

}  // namespace mooring::manager
