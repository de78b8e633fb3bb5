// Finds the containers that outlived their engine: with live-restore, they run on while Docker restarts.
#pragma once

#include "manager/launch/plugin_process.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Whether a process that started before `engine` has the filesystem of the attachment, or a part of it, in a mount
// namespace of its own. A service with a namespace of its own also has the mounts of the host, which do not count. They
// are those of the attachment, at any path that ends with theirs, and others at their path on the host. True also if
// the mounts of a process or of this host cannot be read.
bool HasUserOlderThan(const ProcessIdentity& engine, const AttachmentRecord& attachment);

}  // namespace mooring::manager
