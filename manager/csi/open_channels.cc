#include "manager/csi/open_channels.h"

namespace mooring::manager {

CsiConnector OpenChannels::connector() {
  return [this](const std::string& socket_path, const std::string& plugin) { return Connect(socket_path, plugin); };
}

std::shared_ptr<CsiChannel> OpenChannels::Connect(const std::string& socket_path, const std::string& plugin) {
  std::shared_ptr<CsiChannel> channel = connect_(socket_path, plugin);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(channels_, [](const auto& weak) { return weak.expired(); });
  channels_.push_back(channel);
  if (closed_) channel->Close();
  return channel;
}

void OpenChannels::CloseAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  for (const auto& weak : channels_) {
    if (const auto channel = weak.lock()) channel->Close();
  }
}

}  // namespace mooring::manager
