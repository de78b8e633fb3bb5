// The words for propagation that people and orchestrators use, and the one that Mooring answers with.
//
//   Propagation   mount(8)            Nomad            Kubernetes         canonical
//   kInherit      -                   -                -                  inherit
//   kPrivate      private, rprivate   private          None               private
//   kSlave        slave, rslave       host-to-task     HostToContainer    rslave
//   kShared       shared, rshared     bidirectional    Bidirectional      rshared
//
// For a bind mount(8)'s two words of a kind are one: whether the mounts below are set, too, follows from whether they
// are bound (BindRequest::recursive). Where the propagation of a mount that is there is changed, they are two, and this
// is not what reads them.
#ifndef MOORING_MOUNTER_PROPAGATION_H_
#define MOORING_MOUNTER_PROPAGATION_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

// Those of the table but for kInherit's, for messages.
inline constexpr std::string_view kPropagationWords =
    "private (rprivate, None), rslave (slave, host-to-task, HostToContainer), rshared (shared, bidirectional, "
    "Bidirectional)";

// Any word of the table, as it is spelt there. Anything else, the empty word too: INVALID_ARGUMENT, with all that is
// allowed.
absl::StatusOr<Propagation> ParsePropagation(std::string_view word);

// MS_PRIVATE and the like, as mount(2) and mount_setattr(2) take it; 0 for kInherit.
unsigned long MountBitsOf(Propagation propagation);

// The canonical word; ParsePropagation takes it back.
std::string_view ToString(Propagation propagation);

}  // namespace mooring

#endif  // MOORING_MOUNTER_PROPAGATION_H_
