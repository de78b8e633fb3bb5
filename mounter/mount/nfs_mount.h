// Exports of NFS servers, nfs(5): a mount without mount.nfs and without any daemon.
//
// A server that does not answer holds the process that mounts, until a signal kills it. So a child mounts, and is
// killed after a while. A mount that waits would also hold every later mount from that server.
#pragma once

#include "absl/status/status.h"
#include "mounter/mounter.h"

namespace mooring {

// INVALID_ARGUMENT: the request has not exactly one option `addr`, the address of its server.
absl::Status CheckHasAddress(const MountRequest& request);

// Mounts `source`, "server:/export", with the options of the request, nosuid, nodev and private. The parent of the
// target exists; it may lie anywhere. UNAVAILABLE: the server does not answer. FAILED_PRECONDITION: the server or the
// kernel refuses it.
//
// With the option `hard` it is for tasks. Then it has the directory .mooring, where this tries to be root: the server
// may take root for nobody, which is FAILED_PRECONDITION.
absl::Status MountExport(const MountRequest& request);

}  // namespace mooring
