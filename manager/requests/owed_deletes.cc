#include "manager/requests/owed_deletes.h"

namespace mooring::manager {

void OwedDeletes::Make(const Transaction& deletes) {
  const bool may_try = shared_.lease().ValidUntil() > Clock::now();
  if (!may_try || !Try(deletes).ok()) MakeLater(deletes);
}

void OwedDeletes::MakeLater(const Transaction& deletes) {
  work_.Push({.key = deletes.deletes.front(), .attempt = [this, deletes] { return Try(deletes); }},
             std::chrono::milliseconds(200));
}

// ABORTED: a compare does not hold, so others have the key by now.
absl::Status OwedDeletes::Try(const Transaction& deletes) {
  absl::Status status = shared_.Commit(deletes).status();
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

}  // namespace mooring::manager
