#include "tests/unit/cli/fake_server.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace mooring::cli {
namespace {

using Bytes = grpc::SerializationTraits<google::protobuf::Message>;

// "/csi.v1.Node/NodeGetInfo"
const google::protobuf::MethodDescriptor& MethodAt(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(path.substr(1));
  if (method == nullptr) throw std::runtime_error("unknown method " + path);
  return *method;
}

// Reads the request of a call, writes the answers of the script, and deletes itself.
class ScriptedCall final : public grpc::ServerGenericBidiReactor {
 public:
  ScriptedCall(Script& script, const std::string& path) : script_(script), method_(MethodAt(path)) {
    StartRead(&buffer_);
  }

  void OnReadDone(bool ok) override {
    const auto* type = google::protobuf::MessageFactory::generated_factory()->GetPrototype(method_.input_type());
    std::unique_ptr<google::protobuf::Message> request(type->New());
    if (!ok || !Bytes::Deserialize(&buffer_, request.get()).ok()) return Finish(grpc::Status::CANCELLED);
    answer_ = script_.Answer(std::move(request), method_);
    WriteNext();
  }
  void OnWriteDone(bool ok) override { ok ? WriteNext() : Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (answer_.messages.empty()) return Finish(answer_.status);
    bool own_buffer = false;
    buffer_.Clear();
    Bytes::Serialize(*answer_.messages.front(), &buffer_, &own_buffer);
    answer_.messages.pop_front();
    StartWrite(&buffer_);
  }

  Script& script_;
  const google::protobuf::MethodDescriptor& method_;
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

}  // namespace mooring::cli
