// Checks of etcd's answers before the manager believes them. A wrong address, a proxy or a damaged member may answer
// anything.
#pragma once

#include <etcd.pb.h>

#include "absl/status/status.h"

namespace mooring::manager {

// INTERNAL: a key of the page was not asked for, or is not in order. Or the page is empty, and says that more follow.
absl::Status CheckPage(const etcdserverpb::RangeRequest& asked, const etcdserverpb::RangeResponse& page);

// The key that this step of a transaction has read. Null: it is missing, or the answer has no such step.
const mvccpb::KeyValue* FoundBy(const etcdserverpb::TxnResponse& response, int step);

}  // namespace mooring::manager
