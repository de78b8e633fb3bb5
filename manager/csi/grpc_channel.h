// A CsiChannel over gRPC on a unix socket: csi.sock of any plugin.
#ifndef MOORING_MANAGER_CSI_GRPC_CHANNEL_H_
#define MOORING_MANAGER_CSI_GRPC_CHANNEL_H_

#include <memory>
#include <string>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

// Connects at the first call, and anew where the plugin was restarted on the same path. Messages of any size.
std::shared_ptr<CsiChannel> ConnectCsi(const std::string& socket_path);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_GRPC_CHANNEL_H_
