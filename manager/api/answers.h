// Records as callers of the API see them: without secrets and mount flags, which may be sensitive.
#pragma once

#include "manager.pb.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/records/records.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {

v1::Volume Shown(const Volume& volume);
v1::Attachment Shown(const AttachmentRecord& mount);
v1::PluginStatus Shown(const PluginStatus& status);

}  // namespace mooring::manager
