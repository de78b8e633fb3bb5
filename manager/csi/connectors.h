// A CsiChannel that uses gRPC on the unix socket of a plugin.
#pragma once

#include <memory>
#include <string>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

// Connects at the first call, and again after a restart of the plugin on the same path. Messages may have any size.
std::shared_ptr<CsiChannel> ConnectCsi(const std::string& socket_path);

}  // namespace mooring::manager
