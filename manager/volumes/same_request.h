// Whether a request repeats the one that created or registered a volume.
#pragma once

#include "absl/status/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

// OK: `asked` repeats the request behind `there`. ALREADY_EXISTS names each difference with both values, except for
// secrets and mount flags, and says how to get what is asked for. The plugin sets context and id of a created volume,
// so these are not compared.
absl::Status CheckSameRequest(const Volume& there, const Volume& asked);

}  // namespace mooring::manager
