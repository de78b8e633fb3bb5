#include "tests/unit/cli/script.h"

#include <thread>
#include <utility>

namespace mooring::cli {
namespace {

std::unique_ptr<google::protobuf::Message> CopyOf(const google::protobuf::Message& message) {
  std::unique_ptr<google::protobuf::Message> copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

}  // namespace

void Script::Reply(const google::protobuf::Message& response) {
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
  ScriptedAnswer answer{{}, failure == failures_.end() ? grpc::Status::OK : failure->second};
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

}  // namespace mooring::cli
