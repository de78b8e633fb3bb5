// The rules about the records of volumes.
#pragma once

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/records.h"
#include "manager/state/records_store.h"

namespace mooring::manager {

absl::Status CheckReady(const Volume& volume);  // FAILED_PRECONDITION: it is being created or deleted

// Whether two records with different keys are the same volume of a plugin.
bool AreSameVolume(const Volume& a, const Volume& b);

// Two hosts must not work at a volume at the same time: one would undo what the other does. UNAVAILABLE: another host
// is creating or deleting it.
absl::Status CheckNotElsewhere(RecordsStore& store, HostDirectory& hosts, const Volume& volume);

// OK: `asked` repeats the request behind `there`. ALREADY_EXISTS names each difference with both values, except for
// secrets and mount flags, and says how to get what is asked for. The plugin sets context and id of a created volume,
// so these are not compared.
absl::Status CheckSameRequest(const Volume& there, const Volume& asked);

// Whether the plugin has created or expanded nothing.
inline bool ChangedNothing(const absl::Status& status) {
  return IsRefusal(status) || absl::IsResourceExhausted(status);
}

}  // namespace mooring::manager
