// A CSI driver or a manager for tests. It records every request and gives the answers of its script.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace mooring::cli {

using Messages = std::deque<std::unique_ptr<google::protobuf::Message>>;

struct ScriptedAnswer {
  Messages messages;
  grpc::Status status;
};

// The answers and errors that a test gives, and the requests that the server received, in order of arrival. Answers are
// found by the type of the response.
class Script {
 public:
  // Answers with the response in text format from now on. If Reply was called before for this type, the earlier
  // response comes first, once. A call that is answered by a stream gets all responses.
  template <typename Response>
  void Reply(const std::string& text) {
    Response response;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &response)) << text;
    AddReply(response);
  }

  // Refuses the call that `Response` answers, until the next Reply or Fail of that type. A stream fails at its end.
  template <typename Response>
  void Fail(grpc::StatusCode code, const std::string& message) {
    const std::lock_guard lock(mutex_);
    failures_[Response::descriptor()] = {grpc::Status(code, message)};
  }

  // Refuses the next call alone.
  template <typename Response>
  void FailOnce(grpc::StatusCode code, const std::string& message) {
    const std::lock_guard lock(mutex_);
    failures_[Response::descriptor()] = {grpc::Status(code, message), true};
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

  // The last request of the type, such as "ProbeRequest", is exactly `text`, in text format.
  void ExpectLast(const std::string& type, const std::string& text) const;

  // Records the request and returns its answer, after the delay.
  ScriptedAnswer Answer(std::unique_ptr<google::protobuf::Message> request,
                        const google::protobuf::MethodDescriptor& method);

 private:
  using Type = const google::protobuf::Descriptor*;

  void AddReply(const google::protobuf::Message& response);

  mutable std::mutex mutex_;
  Messages requests_;
  std::map<Type, Messages> replies_;
  struct Failure {
    grpc::Status status;
    bool once = false;
  };
  std::map<Type, Failure> failures_;
  std::chrono::milliseconds delay_{0};
};

// A command line, and a request that it must send.
struct RequestRow {
  std::string line;     // after "mooring "
  std::string request;  // the name of its type
  std::string text;
};

// Serves all methods of the protocols that the program is linked with, on a socket in a directory of its own.
class FakeServer {
 public:
  enum class Start { kNow, kLater };
  explicit FakeServer(Start start = Start::kNow);
  ~FakeServer() { Stop(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  void Serve();
  void Stop();  // removes the socket, like a server that ends well

  Script& script() { return script_; }
  const std::string& directory() const { return directory_.path(); }
  std::string socket() const { return directory() + "/server.sock"; }
  std::string endpoint() const { return "unix://" + socket(); }

  // Each command must succeed, silently on stderr.
  void ExpectRequests(const std::vector<RequestRow>& rows);

 private:
  Script script_;
  mooring::testing::TempDir directory_;
  std::unique_ptr<grpc::CallbackGenericService> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mooring::cli
