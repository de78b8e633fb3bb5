// A channel to the controller of a plugin on another host.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "manager/csi/csi_channel.h"
#include "manager/requests/request_sender.h"

namespace mooring::manager {

class RemoteController final : public CsiChannel {
 public:
  // The sender and its table outlive the channel.
  RemoteController(RequestSender& sender, RequestTable& table, RequestSender::Target target)
      : sender_(sender), table_(table), target_(std::move(target)) {}

  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until) override {
    if (closed_) return absl::CancelledError("the connection to the plugin on another host was closed");
    return sender_.Call(target_, method, request, response, until, closed_);
  }

  void Close() override {
    closed_ = true;
    table_.Wake();
  }

 private:
  RequestSender& sender_;
  RequestTable& table_;
  const RequestSender::Target target_;
  std::atomic<bool> closed_ = false;
};

}  // namespace mooring::manager
