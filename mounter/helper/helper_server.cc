#include "mounter/helper/helper_server.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/status.h"
#include "mounter/helper/channel.h"
#include "mounter/helper/wire.h"

namespace mooring {
namespace {

// The answer of a call without a result.
pb::Answer Done(const absl::Status& status) {
  pb::Answer answer;
  if (!status.ok()) wire::To(status, answer);
  return answer;
}

// The answer of a call whose result goes into `field`.
template <typename Value, typename Message>
pb::Answer Done(const absl::StatusOr<Value>& value, Message* (pb::Answer::*field)()) {
  pb::Answer answer;
  if (value.ok()) {
    wire::To(*value, *(answer.*field)());
  } else {
    wire::To(value.status(), answer);
  }
  return answer;
}

pb::Answer Mount(const pb::MountRequest& message, Mounter& mounter) {
  const absl::StatusOr<MountRequest> request = wire::From(message);
  return Done(request.ok() ? mounter.Mount(*request) : request.status());
}

pb::Answer Bind(const pb::BindRequest& message, Mounter& mounter) {
  const absl::StatusOr<BindRequest> request = wire::From(message);
  return Done(request.ok() ? mounter.Bind(*request) : request.status());
}

pb::Answer Unmount(const pb::UnmountRequest& message, Mounter& mounter) {
  const absl::StatusOr<UnmountRequest> request = wire::From(message);
  return Done(request.ok() ? mounter.Unmount(*request) : request.status());
}

pb::Answer Change(const pb::ChangeRequest& message, Mounter& mounter) {
  const absl::StatusOr<ChangeRequest> request = wire::From(message);
  return Done(request.ok() ? mounter.Change(*request) : request.status());
}

pb::Answer TuneLoop(const pb::TuneLoopRequest& message, Mounter& mounter) {
  const absl::StatusOr<LoopInfo> loop = wire::From(message.loop());
  return Done(loop.ok() ? mounter.TuneLoop(*loop, {message.read_ahead_bytes()}) : loop.status());
}

pb::Answer Copy(const pb::CopyRequest& message, Mounter& mounter) {
  const absl::StatusOr<std::vector<ImageCopy>> copies = wire::From(message);
  return Done(copies.ok() ? mounter.Copy(*copies) : copies.status());
}

pb::Answer CheckNeeds(const pb::NeedsRequest& message, Mounter& mounter) {
  const absl::StatusOr<Needs> needs = wire::From(message);
  return Done(needs.ok() ? mounter.CheckNeeds(*needs) : needs.status());
}

pb::Answer AttachLoop(const pb::AttachLoopRequest& message, Mounter& mounter) {
  const absl::StatusOr<AttachLoopRequest> request = wire::From(message);
  if (!request.ok()) return Done(request.status());
  return Done(mounter.AttachLoop(*request), &pb::Answer::mutable_loop);
}

pb::Answer OnLoop(const pb::LoopInfo& message, Mounter& mounter, absl::Status (LoopDevices::*call)(const LoopInfo&)) {
  const absl::StatusOr<LoopInfo> loop = wire::From(message);
  return Done(loop.ok() ? (mounter.*call)(*loop) : loop.status());
}

pb::Answer OnFilesystem(const pb::FilesystemRequest& message, Mounter& mounter,
                        absl::Status (Filesystems::*call)(const std::string&, const std::string&)) {
  absl::Status form = wire::CheckText(message.path());
  if (form.ok()) form = wire::CheckText(message.fs_type());
  return Done(form.ok() ? (mounter.*call)(message.path(), message.fs_type()) : form);
}

pb::Answer HealthProblem(const std::string& path, Mounter& mounter) {
  const absl::StatusOr<std::string> problem = mounter.HealthProblem(path);
  pb::Answer answer = Done(problem.status());
  if (problem.ok()) answer.set_text(*problem);
  return answer;
}

// The path of a call that takes nothing else; null for the other calls.
const std::string* PathOf(const pb::Request& request) {
  switch (request.call_case()) {
    case pb::Request::kFind:
      return &request.find();
    case pb::Request::kList:
      return &request.list();
    case pb::Request::kStats:
      return &request.stats();
    case pb::Request::kFindLoops:
      return &request.find_loops();
    case pb::Request::kProbe:
      return &request.probe();
    case pb::Request::kHealthProblem:
      return &request.health_problem();
    case pb::Request::kThaw:
      return &request.thaw();
    case pb::Request::kRemoveTree:
      return &request.remove_tree();
    case pb::Request::kMount:
    case pb::Request::kBind:
    case pb::Request::kUnmount:
    case pb::Request::kAttachLoop:
    case pb::Request::kDetachLoop:
    case pb::Request::kResizeLoop:
    case pb::Request::kFormat:
    case pb::Request::kCheck:
    case pb::Request::kGrow:
    case pb::Request::kChange:
    case pb::Request::kTuneLoop:
    case pb::Request::kCopy:
    case pb::Request::kNeeds:
    case pb::Request::CALL_NOT_SET:
      return nullptr;
  }
  return nullptr;
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

pb::Answer AnswerGuarded(const pb::Request& request, Mounter& mounter) {
  try {
    return AnswerTo(request, mounter);
  } catch (const std::exception& error) {
    return Done(Internal(fmt::format("the mount helper met an unexpected error: {}", error.what())));
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
    if (!channel.Send(AnswerGuarded(request, mounter)).ok()) return;
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

pb::Answer AnswerTo(const pb::Request& request, Mounter& mounter) {
  if (const std::string* path = PathOf(request); path != nullptr) {
    if (const absl::Status form = wire::CheckText(*path); !form.ok()) return Done(form);
  }
  switch (request.call_case()) {
    case pb::Request::kMount:
      return Mount(request.mount(), mounter);
    case pb::Request::kBind:
      return Bind(request.bind(), mounter);
    case pb::Request::kUnmount:
      return Unmount(request.unmount(), mounter);
    case pb::Request::kFind:
      return Done(mounter.Find(request.find()), &pb::Answer::mutable_path);
    case pb::Request::kList:
      return Done(mounter.List(request.list()), &pb::Answer::mutable_mounts);
    case pb::Request::kStats:
      return Done(mounter.Stats(request.stats()), &pb::Answer::mutable_stats);
    case pb::Request::kAttachLoop:
      return AttachLoop(request.attach_loop(), mounter);
    case pb::Request::kDetachLoop:
      return OnLoop(request.detach_loop(), mounter, &LoopDevices::DetachLoop);
    case pb::Request::kResizeLoop:
      return OnLoop(request.resize_loop(), mounter, &LoopDevices::ResizeLoop);
    case pb::Request::kFindLoops:
      return Done(mounter.FindLoops(request.find_loops()), &pb::Answer::mutable_loops);
    case pb::Request::kProbe:
      return Done(mounter.Probe(request.probe()), &pb::Answer::mutable_filesystem);
    case pb::Request::kFormat:
      return OnFilesystem(request.format(), mounter, &Filesystems::Format);
    case pb::Request::kCheck:
      return OnFilesystem(request.check(), mounter, &Filesystems::Check);
    case pb::Request::kGrow:
      return OnFilesystem(request.grow(), mounter, &Filesystems::Grow);
    case pb::Request::kHealthProblem:
      return HealthProblem(request.health_problem(), mounter);
    case pb::Request::kChange:
      return Change(request.change(), mounter);
    case pb::Request::kTuneLoop:
      return TuneLoop(request.tune_loop(), mounter);
    case pb::Request::kCopy:
      return Copy(request.copy(), mounter);
    case pb::Request::kThaw:
      return Done(mounter.Thaw(request.thaw()));
    case pb::Request::kRemoveTree:
      return Done(mounter.RemoveTree(request.remove_tree()));
    case pb::Request::kNeeds:
      return CheckNeeds(request.needs(), mounter);
    case pb::Request::CALL_NOT_SET:
      break;
  }
  return Done(InvalidArgument("a request to the mount helper names no call that it knows"));
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
