// The answers and errors that a test gives to a fake service, and the requests that the service received.
#ifndef MOORING_TESTS_UNIT_CLI_SCRIPT_H_
#define MOORING_TESTS_UNIT_CLI_SCRIPT_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mooring::cli {

// The part that the fake services share. Requests are in order of arrival; answers are found by the type of the
// response.
class Script {
 public:
  // Answers with `response` from now on. If Reply was called before for this type, the earlier response comes first,
  // once.
  void Reply(const google::protobuf::Message& response);
  // Refuses the call that `Response` answers, until the next Reply or Fail of that type.
  template <typename Response>
  void Fail(grpc::StatusCode code, const std::string& message) {
    const std::lock_guard lock(mutex_);
    failures_[Response::descriptor()] = grpc::Status(code, message);
  }
  void SetDelay(std::chrono::milliseconds delay);

  // Every request of this type so far.
  template <typename Request>
  std::vector<Request> Requests() const {
    const std::lock_guard lock(mutex_);
    std::vector<Request> requests;
    for (const auto& request : requests_) {
      if (const auto* typed = dynamic_cast<const Request*>(request.get())) requests.push_back(*typed);
    }
    return requests;
  }

  std::size_t RequestCount() const;  // of all types

  grpc::Status Handle(const google::protobuf::Message& request, google::protobuf::Message* response);

  // For a call that is answered by a stream: writes all replies, then returns the failure, if there is one.
  template <typename Response>
  grpc::Status HandleStream(const google::protobuf::Message& request, grpc::ServerWriter<Response>& writer) {
    const std::lock_guard lock(mutex_);
    requests_.emplace_back(request.New())->CopyFrom(request);
    for (const auto& reply : replies_[Response::descriptor()]) writer.Write(dynamic_cast<const Response&>(*reply));
    const auto failure = failures_.find(Response::descriptor());
    return failure == failures_.end() ? grpc::Status::OK : failure->second;
  }

 private:
  using Type = const google::protobuf::Descriptor*;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<google::protobuf::Message>> requests_;
  std::map<Type, std::deque<std::unique_ptr<google::protobuf::Message>>> replies_;
  std::map<Type, grpc::Status> failures_;
  std::chrono::milliseconds delay_{0};
};

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_SCRIPT_H_
