#include "manager/requests/owed_deletes.h"

#include <algorithm>

namespace mooring::manager {
namespace {

constexpr std::chrono::milliseconds kFirstDeletePause{200};
constexpr std::chrono::seconds kLongestDeletePause{10};

}  // namespace

void OwedDeletes::Make(const Transaction& deletes) {
  if (shared_.lease().ValidUntil() > Clock::now()) {
    Try(deletes, kFirstDeletePause);
  } else {
    MakeLater(deletes);
  }
}

void OwedDeletes::MakeLater(const Transaction& deletes) { Push(deletes, kFirstDeletePause); }

void OwedDeletes::Push(const Transaction& deletes, Clock::duration pause) {
  const Clock::duration next = std::min<Clock::duration>(2 * pause, kLongestDeletePause);
  lanes_.Push(
      "", [this, deletes, next] { Try(deletes, next); }, pause);
}

void OwedDeletes::Try(const Transaction& deletes, Clock::duration next_pause) {
  const absl::Status status = shared_.Commit(deletes).status();
  if (!status.ok() && !absl::IsAborted(status)) Push(deletes, next_pause);
}

}  // namespace mooring::manager
