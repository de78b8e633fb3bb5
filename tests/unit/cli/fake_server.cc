#include "tests/unit/cli/fake_server.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

std::unique_ptr<google::protobuf::Message> CopyOf(const google::protobuf::Message& message) {
  std::unique_ptr<google::protobuf::Message> copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  grpc::Slice slice;
  return bytes.DumpToSingleSlice(&slice).ok() && message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

grpc::ByteBuffer BytesOf(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// "/csi.v1.Node/NodeGetInfo"
const google::protobuf::MethodDescriptor* MethodAt(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(path.substr(1));
  if (method == nullptr) throw std::runtime_error("unknown method " + path);
  return method;
}

// Reads the request of a call, writes the answers of the script, and deletes itself.
class ScriptedCall final : public grpc::ServerGenericBidiReactor {
 public:
  ScriptedCall(Script& script, const std::string& path) : script_(script), method_(MethodAt(path)) {
    StartRead(&buffer_);
  }

  void OnReadDone(bool ok) override {
    const auto* type = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method_->input_type());
    std::unique_ptr<google::protobuf::Message> request(type->New());
    if (!ok || !Parse(buffer_, *request)) return Finish(grpc::Status::CANCELLED);
    answer_ = script_.Answer(std::move(request), *method_);
    WriteNext();
  }
  void OnWriteDone(bool ok) override { ok ? WriteNext() : Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (answer_.messages.empty()) return Finish(answer_.status);
    buffer_ = BytesOf(*answer_.messages.front());
    answer_.messages.pop_front();
    StartWrite(&buffer_);
  }

  Script& script_;
  const google::protobuf::MethodDescriptor* const method_;
  grpc::ByteBuffer buffer_;
  ScriptedAnswer answer_;
};

class ScriptedService final : public grpc::CallbackGenericService {
 public:
  explicit ScriptedService(Script& script) : script_(script) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new ScriptedCall(script_, context->method());
  }

 private:
  Script& script_;
};

}  // namespace

void Script::AddReply(const google::protobuf::Message& response) {
  const std::lock_guard lock(mutex_);
  failures_.erase(response.GetDescriptor());
  replies_[response.GetDescriptor()].push_back(CopyOf(response));
}

void Script::SetDelay(std::chrono::milliseconds delay) {
  const std::lock_guard lock(mutex_);
  delay_ = delay;
}

std::size_t Script::RequestCount() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

ScriptedAnswer Script::Answer(std::unique_ptr<google::protobuf::Message> request,
                              const google::protobuf::MethodDescriptor& method) {
  std::unique_lock lock(mutex_);
  requests_.push_back(std::move(request));
  const std::chrono::milliseconds delay = delay_;
  lock.unlock();
  std::this_thread::sleep_for(delay);
  lock.lock();
  const Type type = method.output_type();
  const auto failure = failures_.find(type);
  ScriptedAnswer answer{{}, failure == failures_.end() ? grpc::Status::OK : failure->second.status};
  if (failure != failures_.end() && failure->second.once) failures_.erase(failure);
  Messages& replies = replies_[type];
  if (method.server_streaming()) {
    for (const auto& reply : replies) answer.messages.push_back(CopyOf(*reply));
  } else if (answer.status.ok()) {
    const auto* prototype = google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
    answer.messages.push_back(CopyOf(replies.empty() ? *prototype : *replies.front()));
    if (replies.size() > 1) replies.pop_front();
  }
  return answer;
}

void Script::ExpectLast(const std::string& type, const std::string& text) const {
  const std::lock_guard lock(mutex_);
  const auto last = std::find_if(requests_.rbegin(), requests_.rend(),
                                 [&type](const auto& request) { return request->GetDescriptor()->name() == type; });
  ASSERT_NE(last, requests_.rend()) << "no " << type;
  const std::unique_ptr<google::protobuf::Message> expected((*last)->New());
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, expected.get())) << text;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(**last, *expected)) << (*last)->DebugString();
}

FakeServer::FakeServer(Start start) : service_(std::make_unique<ScriptedService>(script_)) {
  if (start == Start::kNow) Serve();
}

void FakeServer::Serve() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("serve " + socket());
}

void FakeServer::Stop() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

void FakeServer::ExpectRequests(const std::vector<RequestRow>& rows) {
  for (const RequestRow& row : rows) {
    SCOPED_TRACE(row.line);
    const Result result = RunLine("mooring " + row.line);
    EXPECT_EQ(result.status, kExitOk);
    EXPECT_EQ(result.err, "");
    script_.ExpectLast(row.request, row.text);
  }
}

}  // namespace mooring::cli
