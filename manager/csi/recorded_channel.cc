#include "manager/csi/recorded_channel.h"

#include <memory>
#include <string_view>
#include <utility>

namespace mooring::manager {
namespace {

class RecordedChannel final : public CsiChannel {
 public:
  RecordedChannel(std::shared_ptr<CsiChannel> channel, CallRecorder& recorder)
      : channel_(std::move(channel)), recorder_(recorder) {}

  absl::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response, Clock::time_point until) override {
    const std::string_view name = std::string_view(method).substr(method.rfind('/') + 1);
    const Clock::time_point began = Clock::now();
    recorder_.Begin(name);
    absl::Status status = channel_->Call(method, request, response, until);
    recorder_.End(name, status.code(), Clock::now() - began);
    return status;
  }

  void Close() override { channel_->Close(); }

 private:
  const std::shared_ptr<CsiChannel> channel_;
  CallRecorder& recorder_;
};

}  // namespace

CsiConnector Recorded(CsiConnector connect, std::function<CallRecorder&(const std::string& plugin)> recorder_of) {
  return [connect = std::move(connect), recorder_of = std::move(recorder_of)](
             const std::string& socket_path, const std::string& plugin) -> std::shared_ptr<CsiChannel> {
    return std::make_shared<RecordedChannel>(connect(socket_path, plugin), recorder_of(plugin));
  };
}

}  // namespace mooring::manager
