// All channels to plugins that are open, so that calls which hang there can be ended: also those to instances that were
// replaced, which nobody else knows any more.
#ifndef MOORING_MANAGER_CSI_OPEN_CHANNELS_H_
#define MOORING_MANAGER_CSI_OPEN_CHANNELS_H_

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

  CsiConnector connector();  // this outlives it

  void CloseAll();  // those to come, too

 private:
  std::shared_ptr<CsiChannel> Connect(const std::string& socket_path, const std::string& plugin);

  const CsiConnector connect_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<CsiChannel>> channels_;
  bool closed_ = false;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_OPEN_CHANNELS_H_
