#include "mounter/helper/helper_server.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "base/deadline.h"
#include "base/exception.h"
#include "base/log.h"
#include "base/status.h"
#include "mounter/helper/call_table.h"
#include "mounter/helper/channel.h"
#include "mounter/helper/wire.h"

namespace mooring {
namespace {

pb::Answer Failed(const absl::Status& status) {
  pb::Answer answer;
  wire::To(status, answer);
  return answer;
}

template <typename Method, typename Argument>
auto Invoke(Mounter& mounter, Method method, const Argument& argument) {
  return (mounter.*method)(argument);
}

template <typename Method, typename First, typename Second>
auto Invoke(Mounter& mounter, Method method, const std::pair<First, Second>& arguments) {
  return (mounter.*method)(arguments.first, arguments.second);
}

pb::Answer Answered(const absl::Status& status, void* (pb::Answer::* /*none*/)()) {
  return status.ok() ? pb::Answer() : Failed(status);
}

template <typename Value, typename Result>
pb::Answer Answered(const absl::StatusOr<Value>& value, Result* (pb::Answer::*result)()) {
  if (!value.ok()) return Failed(value.status());
  pb::Answer answer;
  wire::To(*value, *(answer.*result)());
  return answer;
}

// Executes a request that carries this call.
template <typename Call>
pb::Answer AnswerToCall(const Call& call, pb::Request& request, Mounter& mounter) {
  const auto arguments = wire::From(*(request.*call.arguments)());
  if (!arguments.ok()) return Failed(arguments.status());
  return Answered(Invoke(mounter, call.method, *arguments), call.result);
}

// Counts the threads of the channels. A thread whose call hangs outlives ServeHelper, so the threads share ownership.
class Threads {
 public:
  bool Enter() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (count_ >= kMostChannels) return false;
    ++count_;
    return true;
  }
  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  int Wait(std::chrono::milliseconds patience) {  // returns how many still run
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, patience, [this] { return count_ == 0; });
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

pb::Answer AnswerGuarded(pb::Request request, Mounter& mounter) {
  try {
    return AnswerTo(std::move(request), mounter);
  } catch (const std::exception& error) {
    return Failed(Annotate(ExceptionStatus(error), "the mount helper"));
  }
}

void ServeChannel(Channel channel, Mounter& mounter) {
  for (;;) {
    pb::Request request;
    const absl::Status received = channel.Receive(request, wire::kMostRequest);
    if (absl::IsUnavailable(received)) return;
    if (!received.ok()) {
      log::Once(log::Level::kWarning, "closing a channel that carried a malformed request",
                {{"cause", Message(received)}});
      return;
    }
    // A failure means that the plugin has closed its end.
    if (!channel.Send(AnswerGuarded(std::move(request), mounter)).ok()) return;
  }
}

void Spawn(UniqueFd fd, Mounter& mounter, const std::shared_ptr<Threads>& threads) {
  if (!threads->Enter()) {
    log::Once(log::Level::kWarning, "closing a channel: the plugin has too many");
    return;
  }
  try {
    std::thread([channel = Channel(std::move(fd)), &mounter, threads]() mutable {
      ServeChannel(std::move(channel), mounter);
      threads->Leave();
    }).detach();
  } catch (const std::system_error& error) {  // the limit of threads is reached
    log::Once(log::Level::kError, "closing a channel: cannot start a thread for it", {{"cause", error.what()}});
    threads->Leave();
  }
}

}  // namespace

pb::Answer AnswerTo(pb::Request request, Mounter& mounter) {
  const pb::Request::CallCase number = request.call_case();
  std::optional<DeadlineScope> patience;
  if (request.patience_ms() != 0) {
    constexpr std::uint64_t kDay = 24 * 60 * 60 * 1000;
    patience.emplace(DeadlineScope::Clock::now() +
                     std::chrono::milliseconds(std::min<std::uint64_t>(request.patience_ms(), kDay)));
  }
  std::optional<pb::Answer> answer;
  const auto answer_if_carried = [&](const auto& call) {
    if (!answer && call.number == number) answer = AnswerToCall(call, request, mounter);
  };
  std::apply([&](const auto&... call) { (answer_if_carried(call), ...); }, calls::kAll);
  if (answer) return *std::move(answer);
  return Failed(InvalidArgument("a request to the mount helper names no call that it knows"));
}

absl::Status ServeHelper(const UniqueFd& control, Mounter& mounter, std::chrono::milliseconds patience) {
  const auto threads = std::make_shared<Threads>();
  for (;;) {
    absl::StatusOr<Parcel> parcel = ReceiveParcel(control);
    if (absl::IsUnavailable(parcel.status())) break;
    if (parcel.ok() && parcel->fd.ok()) {
      Spawn(std::move(parcel->fd), mounter, threads);
    } else {
      log::Once(log::Level::kWarning, "ignoring a message without a channel", {{"cause", Message(parcel.status())}});
    }
  }
  const int running = threads->Wait(patience);
  if (running == 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("{} calls still run {} ms after the plugin ended", running, patience.count()));
}

}  // namespace mooring
