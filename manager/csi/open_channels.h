// Keeps all open channels to plugins, so that a stop can end calls that hang. That includes channels to instances that
// were replaced.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

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
