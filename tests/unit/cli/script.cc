#include "tests/unit/cli/script.h"

#include <thread>
#include <utility>

namespace mooring::cli {

void Script::Reply(const google::protobuf::Message& response) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<google::protobuf::Message> copy(response.New());
  copy->CopyFrom(response);
  failures_.erase(response.GetDescriptor());
  replies_[response.GetDescriptor()].push_back(std::move(copy));
}

void Script::SetDelay(std::chrono::milliseconds delay) {
  const std::lock_guard lock(mutex_);
  delay_ = delay;
}

std::size_t Script::RequestCount() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

grpc::Status Script::Handle(const google::protobuf::Message& request, google::protobuf::Message* response) {
  std::unique_lock lock(mutex_);
  requests_.emplace_back(request.New())->CopyFrom(request);
  const std::chrono::milliseconds delay = delay_;
  lock.unlock();
  std::this_thread::sleep_for(delay);
  lock.lock();
  const auto failure = failures_.find(response->GetDescriptor());
  if (failure != failures_.end()) return failure->second;
  auto& replies = replies_[response->GetDescriptor()];
  if (!replies.empty()) response->CopyFrom(*replies.front());
  if (replies.size() > 1) replies.pop_front();
  return grpc::Status::OK;
}

}  // namespace mooring::cli
