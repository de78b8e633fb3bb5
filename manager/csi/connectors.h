// Channels to plugins over gRPC, and layers around them: for the metrics, and for the stop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

// Connects at the first call, and again after a restart of the plugin on the same path. Messages may have any size.
std::shared_ptr<CsiChannel> ConnectCsi(const std::string& socket_path);

// Like `connect`, but passes every call to the recorder of the plugin, for the metrics. The recorders outlive the
// channels.
CsiConnector Recorded(CsiConnector connect, std::function<CallRecorder&(const std::string& plugin)> recorder_of);

// Keeps all open channels to plugins, so that a stop can end calls that hang. That includes channels to instances that
// were replaced.
class OpenChannels {
 public:
  explicit OpenChannels(CsiConnector connect) : connect_(std::move(connect)) {}

  CsiConnector connector();  // this object outlives the connector

  void CloseAll();  // also closes channels that are opened later

 private:
  std::shared_ptr<CsiChannel> Connect(const std::string& socket_path, const std::string& plugin);

  const CsiConnector connect_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<CsiChannel>> channels_;
  bool closed_ = false;
};

}  // namespace mooring::manager
