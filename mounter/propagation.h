// The words for propagation that people and orchestrators use, and the canonical word that Mooring prints.
//
//   Propagation   mount(8)            Nomad            Kubernetes         canonical
//   kInherit      -                   -                -                  inherit
//   kPrivate      private, rprivate   private          None               private
//   kSlave        slave, rslave       host-to-task     HostToContainer    rslave
//   kShared       shared, rshared     bidirectional    Bidirectional      rshared
//
// A bind treats mount(8)'s two words of a row alike: BindRequest::recursive decides whether the mounts below are
// changed too. A change of an attached mount tells the two apart, and does not use this table.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

// All words of the table but those of kInherit, for messages.
inline constexpr std::string_view kPropagationWords =
    "private (rprivate, None), rslave (slave, host-to-task, HostToContainer), rshared (shared, bidirectional, "
    "Bidirectional)";

// Accepts every word of the table, as spelt there. INVALID_ARGUMENT, with the allowed words: anything else, and the
// empty word.
absl::StatusOr<Propagation> ParsePropagation(std::string_view word);

// MS_PRIVATE and the like, as mount(2) and mount_setattr(2) take it; 0 for kInherit.
unsigned long MountBitsOf(Propagation propagation);

// The canonical word, which ParsePropagation accepts.
std::string_view ToString(Propagation propagation);

}  // namespace mooring
