// The answers and errors that a test gives to a fake server, and the requests that the server received.
#ifndef MOORING_TESTS_UNIT_CLI_SCRIPT_H_
#define MOORING_TESTS_UNIT_CLI_SCRIPT_H_

#include <google/protobuf/descriptor.h>
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

using Messages = std::deque<std::unique_ptr<google::protobuf::Message>>;

struct ScriptedAnswer {
  Messages messages;
  grpc::Status status;
};

// Requests are in order of arrival; answers are found by the type of the response.
class Script {
 public:
  // Answers with `response` from now on. If Reply was called before for this type, the earlier response comes first,
  // once. A call that is answered by a stream gets all responses.
  void Reply(const google::protobuf::Message& response);
  // Refuses the call that `Response` answers, until the next Reply or Fail of that type. A stream fails at its end.
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

  // Records the request and returns its answer, after the delay.
  ScriptedAnswer Answer(std::unique_ptr<google::protobuf::Message> request,
                        const google::protobuf::MethodDescriptor& method);

 private:
  using Type = const google::protobuf::Descriptor*;

  mutable std::mutex mutex_;
  Messages requests_;
  std::map<Type, Messages> replies_;
  std::map<Type, grpc::Status> failures_;
  std::chrono::milliseconds delay_{0};
};

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_SCRIPT_H_
