// A controller for a call about a volume. If it refuses, the controllers of other hosts are asked, because it may lack
// the storage below the volume (ControllerFor::is_known).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "manager/csi/csi_channel.h"
#include "manager/requests/controller_offers.h"
#include "manager/requests/request_sender.h"
#include "manager/requests/request_table.h"

namespace mooring::manager {

class ControllerWithOthers final : public CsiChannel {
 public:
  // `first`: the channel to the controller of `host`. The references outlive the channel.
  ControllerWithOthers(ControllerOffers& offers, RequestSender& sender, RequestTable& table, ControllerFor controller,
                       std::shared_ptr<CsiChannel> first, std::string host)
      : offers_(offers),
        sender_(sender),
        table_(table),
        controller_(std::move(controller)),
        first_(std::move(first)),
        host_(std::move(host)) {}

  // The first answer that is no refusal. If all refuse: the error of the host that knows most about the volume, so
  // NOT_FOUND only if all of them say so. A few others are asked in one call, and the next ones in the next call.
  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until) override;
  void Close() override;

 private:
  ControllerOffers& offers_;
  RequestSender& sender_;
  RequestTable& table_;
  const ControllerFor controller_;
  const std::shared_ptr<CsiChannel> first_;
  const std::string host_;
  std::atomic<bool> closed_ = false;
};

}  // namespace mooring::manager
