// A CSI driver for tests: it keeps every request it is sent and gives the answers it was told.
#ifndef MOORING_CLI_TESTING_FAKE_DRIVER_H_
#define MOORING_CLI_TESTING_FAKE_DRIVER_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csi.grpc.pb.h"

namespace mooring::cli {

// What the services share: requests in the order they came, answers by the type of the response.
class Script {
 public:
  // Answers with `response` from now on; after another Reply of its type, once, and then with that other one.
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

 private:
  using Type = const google::protobuf::Descriptor*;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<google::protobuf::Message>> requests_;
  std::map<Type, std::deque<std::unique_ptr<google::protobuf::Message>>> replies_;
  std::map<Type, grpc::Status> failures_;
  std::chrono::milliseconds delay_{0};
};

// Serves identity, controller, group controller, snapshot metadata and node on a socket in a directory of its own,
// which goes with it.
class FakeDriver {
 public:
  enum class Start { kNow, kLater };
  explicit FakeDriver(Start start = Start::kNow);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  void Serve();
  void Stop();  // the socket goes, as with a driver that ends well

  Script& script() { return script_; }
  const std::string& directory() const { return directory_; }
  std::string socket() const { return directory_ + "/csi.sock"; }
  std::string endpoint() const { return "unix://" + socket(); }

 private:
  Script script_;
  std::string directory_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mooring::cli

#endif  // MOORING_CLI_TESTING_FAKE_DRIVER_H_
