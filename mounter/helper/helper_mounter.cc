#include "mounter/helper/helper_mounter.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/wire.h"
#include "mounter/sys/syscalls.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestWait{60};
constexpr std::chrono::seconds kHelperComesBack{5};
constexpr std::chrono::milliseconds kEndIsNoticed{250};
constexpr std::chrono::milliseconds kFullRest{5};
constexpr int kMostHangingOnPath = 4;     // each holds a thread of the helper
constexpr int kLook = 1000;               // milliseconds between two looks at the helper's state
constexpr std::chrono::seconds kSoon{1};  // a helper that ends that early is not replaced at once the next time
constexpr std::chrono::seconds kLongestRest{1};

// What the programs may take (mounter/filesystem/ext4_offline.cc, mounter/filesystem/filesystem_format.cc), and a
// margin; a mount may play back a journal, and growing may begin with a check.
constexpr std::chrono::minutes kMountLimit{10}, kFormatLimit{2}, kCheckLimit{65}, kGrowLimit{15 + 65};

// As long as the data takes: a disk that writes 50 MB/s copies 2 TB meanwhile.
constexpr std::chrono::hours kCopyLimit{12}, kRemoveLimit{12};

Clock::time_point DeadlineOfThread() {
  const Clock::time_point latest = Clock::now() + kLongestWait;
  return std::min(DeadlineScope::Now().value_or(latest), latest);
}

bool HasInput(const UniqueFd& fd) {
  pollfd waited = {fd.get(), POLLIN, 0};
  return ::poll(&waited, 1, 0) > 0;
}

// proc(5): a process of which a thread hangs in the kernel is there, with its files open, after it was killed. Then the
// leader of the group is a zombie, which nobody can wait for yet.
bool IsDead(pid_t pid) {
  const UniqueFd process(sys::PidFdOpen(pid));
  if (!process.ok()) return errno == ESRCH;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return false;  // hidepid: it may be well
  const char state = line[name_end + 2];
  return state == 'Z' || state == 'X' || state == 'x';
}

template <typename Message>
auto Converted(const absl::StatusOr<pb::Answer>& answer, const Message& (pb::Answer::*field)() const)
    -> decltype(wire::From((*answer.*field)())) {
  if (!answer.ok()) return answer.status();
  return wire::From(((*answer).*field)());
}

}  // namespace

absl::StatusOr<std::unique_ptr<HelperMounter>> HelperMounter::Start(Keeper keeper, std::function<void()> lost) {
  std::unique_ptr<HelperMounter> mounter(new HelperMounter(std::move(keeper), std::move(lost)));
  mounter->wake_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!mounter->wake_.ok()) return ErrnoStatus(errno, "make an eventfd");
  mounter->watcher_ = std::thread(&HelperMounter::Watch, mounter.get());
  return mounter;
}

HelperMounter::~HelperMounter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  ::eventfd_write(wake_.get(), 1);
  keeper_.Disconnect();  // it may be stopped, and the watcher wait for it
  if (watcher_.joinable()) watcher_.join();
}

absl::Status HelperMounter::Health() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return health_;
}

pid_t HelperMounter::pid() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return helper_.pid;
}

std::uint64_t HelperMounter::restarts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return restarts_;
}

// ---- calls

absl::Status HelperMounter::Mount(const MountRequest& request) {
  pb::Request message;
  wire::To(request, *message.mutable_mount());
  return Ask(message, {.doing = "mount at", .path = request.target, .most = kMountLimit}).status();
}

absl::Status HelperMounter::Bind(const BindRequest& request) {
  pb::Request message;
  wire::To(request, *message.mutable_bind());
  return Ask(message, {.doing = "mount at", .path = request.target}).status();
}

absl::Status HelperMounter::Change(const ChangeRequest& request) {
  pb::Request message;
  wire::To(request, *message.mutable_change());
  return Ask(message, {.doing = "change the mount at", .path = request.target}).status();
}

absl::Status HelperMounter::Unmount(const UnmountRequest& request) {
  pb::Request message;
  wire::To(request, *message.mutable_unmount());
  return Ask(message, {.doing = "unmount", .path = request.target}).status();
}

absl::StatusOr<PathInfo> HelperMounter::Find(const std::string& path) {
  pb::Request message;
  message.set_find(path);
  return Converted(Ask(message, {.doing = "look at", .path = path, .looks = true}), &pb::Answer::path);
}

absl::StatusOr<std::vector<MountInfo>> HelperMounter::List(const std::string& path) {
  pb::Request message;
  message.set_list(path);
  return Converted(Ask(message, {.doing = "list the mounts below", .path = path, .looks = true}), &pb::Answer::mounts);
}

absl::StatusOr<StatsInfo> HelperMounter::Stats(const std::string& path) {
  pb::Request message;
  message.set_stats(path);
  return Converted(Ask(message, {.doing = "ask for the usage of", .path = path, .looks = true}), &pb::Answer::stats);
}

absl::StatusOr<LoopInfo> HelperMounter::AttachLoop(const AttachLoopRequest& request) {
  pb::Request message;
  wire::To(request, *message.mutable_attach_loop());
  const Manner manner = {.doing = "attach", .path = request.backing_file};
  return Converted(Ask(message, manner), &pb::Answer::loop);
}

absl::Status HelperMounter::DetachLoop(const LoopInfo& loop) {
  pb::Request message;
  wire::To(loop, *message.mutable_detach_loop());
  return Ask(message, {.doing = "detach", .path = loop.device}).status();
}

absl::Status HelperMounter::ResizeLoop(const LoopInfo& loop) {
  pb::Request message;
  wire::To(loop, *message.mutable_resize_loop());
  return Ask(message, {.doing = "resize", .path = loop.device}).status();
}

absl::Status HelperMounter::TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) {
  pb::Request message;
  wire::To(loop, *message.mutable_tune_loop()->mutable_loop());
  message.mutable_tune_loop()->set_read_ahead_bytes(tuning.read_ahead_bytes);
  return Ask(message, {.doing = "tune", .path = loop.device}).status();
}

absl::StatusOr<std::vector<LoopInfo>> HelperMounter::FindLoops(const std::string& backing_file) {
  pb::Request message;
  message.set_find_loops(backing_file);
  const Manner manner = {.doing = "look for the loop devices of", .path = backing_file, .looks = true};
  return Converted(Ask(message, manner), &pb::Answer::loops);
}

absl::StatusOr<FilesystemInfo> HelperMounter::Probe(const std::string& path) {
  pb::Request message;
  message.set_probe(path);
  const Manner manner = {.doing = "look into", .path = path, .looks = true};
  return Converted(Ask(message, manner), &pb::Answer::filesystem);
}

absl::Status HelperMounter::Format(const std::string& path, const std::string& fs_type) {
  pb::Request message;
  message.mutable_format()->set_path(path);
  message.mutable_format()->set_fs_type(fs_type);
  return Ask(message, {.doing = "format", .path = path, .most = kFormatLimit}).status();
}

absl::Status HelperMounter::Check(const std::string& path, const std::string& fs_type) {
  pb::Request message;
  message.mutable_check()->set_path(path);
  message.mutable_check()->set_fs_type(fs_type);
  return Ask(message, {.doing = "check", .path = path, .most = kCheckLimit}).status();
}

absl::Status HelperMounter::Grow(const std::string& path, const std::string& fs_type) {
  pb::Request message;
  message.mutable_grow()->set_path(path);
  message.mutable_grow()->set_fs_type(fs_type);
  return Ask(message, {.doing = "grow", .path = path, .most = kGrowLimit}).status();
}

absl::StatusOr<std::string> HelperMounter::Ailment(const std::string& mount_path) {
  pb::Request message;
  message.set_ailment(mount_path);
  absl::StatusOr<pb::Answer> answer = Ask(message, {.doing = "examine", .path = mount_path, .looks = true});
  if (!answer.ok()) return answer.status();
  return std::move(*answer->mutable_text());
}

absl::Status HelperMounter::Copy(const std::vector<ImageCopy>& copies) {
  if (copies.empty()) return absl::OkStatus();
  pb::Request message;
  wire::To(copies, *message.mutable_copy());
  return Ask(message, {.doing = "copy", .path = copies.front().source, .most = kCopyLimit}).status();
}

absl::Status HelperMounter::Thaw(const std::string& image) {
  pb::Request message;
  message.set_thaw(image);
  return Ask(message, {.doing = "thaw", .path = image}).status();
}

absl::Status HelperMounter::RemoveTree(const std::string& directory) {
  pb::Request message;
  message.set_remove_tree(directory);
  return Ask(message, {.doing = "remove", .path = directory, .most = kRemoveLimit}).status();
}

absl::Status HelperMounter::CheckNeeds(const Needs& needs) {
  pb::Request message;
  wire::To(needs, *message.mutable_needs());
  const std::string path = needs.seen_outside.empty() ? "/dev" : needs.seen_outside.front();
  return Ask(message, {.doing = "look around at", .path = path, .looks = true}).status();
}

// ---- channels

absl::StatusOr<pb::Answer> HelperMounter::Ask(const pb::Request& request, const Manner& manner) {
  if (request.ByteSizeLong() > wire::kMostRequest) {
    return InvalidArgument(fmt::format("{} {}: the request is too long", manner.doing, Quote(manner.path, 256)));
  }
  if (DeadlineScope::Now().value_or(Clock::time_point::max()) <= Clock::now()) {
    return absl::DeadlineExceededError(
        fmt::format("{} {}: not tried: the time of the call is over", manner.doing, Quote(manner.path)));
  }
  MOORING_RETURN_IF_ERROR(CheckHanging(manner));
  const Clock::time_point deadline = DeadlineOfThread();
  absl::StatusOr<pb::Answer> answer = AskOnce(request, manner, deadline);
  // By now another helper is there, or on its way.
  if (absl::IsUnavailable(answer.status()) && manner.looks) answer = AskOnce(request, manner, deadline);
  if (!answer.ok()) return answer;
  if (absl::Status status = wire::StatusOf(*answer); !status.ok()) return status;
  return answer;
}

absl::StatusOr<pb::Answer> HelperMounter::AskOnce(const pb::Request& request, const Manner& manner,
                                                  Clock::time_point deadline) {
  const Clock::time_point start = Clock::now();
  MOORING_ASSIGN_OR_RETURN(Lent lent, BorrowAndSend(request, deadline));
  const Clock::time_point until = manner.most ? start + *manner.most : deadline;
  pb::Answer answer;
  const absl::Status received = lent.channel.Receive(answer, wire::kMostAnswer, until);
  if (absl::IsDeadlineExceeded(received)) return Abandon(std::move(lent), manner, Clock::now() - start);
  if (!received.ok()) {
    const std::uint64_t generation = lent.generation;
    Drop(std::move(lent));
    if (absl::IsInvalidArgument(received)) return Internal("the mount helper's answer: " + Message(received));
    // Not all of its sockets are closed at once: another one might still take what nobody reads.
    AwaitNext(generation, Clock::now() + kEndIsNoticed).IgnoreError();
    return Unavailable(
        fmt::format("{} {}: the mount helper ended in the middle of it: call again", manner.doing, Quote(manner.path)));
  }
  Return(std::move(lent));
  return answer;
}

// What a helper closed before it was sent reached nobody: it can go to the next one, whatever it asks for.
absl::StatusOr<HelperMounter::Lent> HelperMounter::BorrowAndSend(const pb::Request& request,
                                                                 Clock::time_point deadline) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(Lent lent, Borrow(deadline));
    const absl::Status sent = lent.channel.Send(request);
    if (sent.ok()) return lent;
    const std::uint64_t generation = lent.generation;
    Drop(std::move(lent));
    if (!absl::IsUnavailable(sent)) return sent;
    MOORING_RETURN_IF_ERROR(AwaitNext(generation, deadline));
  }
}

absl::StatusOr<HelperMounter::Lent> HelperMounter::Borrow(Clock::time_point deadline) {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto patience = std::min(deadline, Clock::now() + kHelperComesBack);
    changed_.wait_until(lock, patience, [this] { return helper_.pid >= 0 || stopping_; });
    if (helper_.pid < 0) return health_.ok() ? Unavailable("the mount helper does not start, or ends") : health_;
    const std::uint64_t generation = generation_;
    if (!idle_.empty()) {
      Lent lent = {std::move(idle_.back()), generation};
      idle_.pop_back();
      lent_.insert(lent.channel.fd().get());
      return lent;
    }
    MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_STREAM));
    const absl::Status sent = SendParcel(helper_.control, 0, pair.theirs, Full::kReturn);
    if (sent.ok()) {
      lent_.insert(pair.ours.get());
      return Lent{Channel(std::move(pair.ours)), generation};
    }
    lock.unlock();
    if (absl::IsResourceExhausted(sent)) {
      if (Clock::now() + kFullRest >= deadline) return absl::DeadlineExceededError(sent.message());
      std::this_thread::sleep_for(kFullRest);  // others are served meanwhile
      continue;
    }
    if (!absl::IsUnavailable(sent)) return sent;
    MOORING_RETURN_IF_ERROR(AwaitNext(generation, deadline));
  }
}

// This helper has ended, which the watcher may not know yet.
absl::Status HelperMounter::AwaitNext(std::uint64_t generation, Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto patience = std::min(deadline, Clock::now() + kHelperComesBack);
  changed_.wait_until(lock, patience, [&] { return generation_ != generation || stopping_; });
  if (generation_ != generation) return absl::OkStatus();
  return health_.ok() ? Unavailable("the mount helper has ended") : health_;
}

void HelperMounter::Return(Lent lent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lent_.erase(lent.channel.fd().get());
  if (lent.generation == generation_ && idle_.size() < kMostIdle) idle_.push_back(std::move(lent.channel));
}

// Closed when nobody takes its number for an open channel any more.
void HelperMounter::Drop(Lent lent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lent_.erase(lent.channel.fd().get());
}

// The helper's thread answers when the kernel does: until then the channel stays, so that it can be counted.
absl::Status HelperMounter::Abandon(Lent lent, const Manner& manner, Clock::duration waited) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    lent_.erase(lent.channel.fd().get());
    hanging_.push_back({std::move(lent.channel), manner.path, manner.looks});
  }
  return absl::DeadlineExceededError(
      fmt::format("{} {}: no answer in {:.1f} s: the filesystem there, or what serves it (a FUSE or NFS server, a "
                  "device), hangs; end or mend that, and call again",
                  manner.doing, Quote(manner.path), std::chrono::duration<double>(waited).count()));
}

std::size_t HelperMounter::hanging() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<std::size_t>(std::count_if(hanging_.begin(), hanging_.end(),
                                                [](const Hanging& call) { return !HasInput(call.channel.fd()); }));
}

// Whoever asks every minute must not take one thread a minute from the others.
absl::Status HelperMounter::CheckHanging(const Manner& manner) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (hanging_.empty()) return absl::OkStatus();
  std::erase_if(hanging_, [](const Hanging& call) { return HasInput(call.channel.fd()); });
  const auto here =
      std::count_if(hanging_.begin(), hanging_.end(), [&](const Hanging& call) { return call.path == manner.path; });
  // One that mounts or unmounts there may yet do so: on top of, or in place of, what came after it.
  const bool changing = std::any_of(hanging_.begin(), hanging_.end(), [&](const Hanging& call) {
    return call.path == manner.path && !call.looks && !manner.looks;
  });
  if (changing) {
    return absl::DeadlineExceededError(
        fmt::format("{} {}: not tried: an earlier call that changes what is there hangs still; end or mend what serves "
                    "the filesystem there",
                    manner.doing, Quote(manner.path)));
  }
  if (here < kMostHangingOnPath && hanging_.size() < kMostHanging) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("{} {}: not tried: {} calls hang there, {} in all; end or mend what serves the filesystem there",
                  manner.doing, Quote(manner.path), here, hanging_.size()));
}

// ---- the watcher

void HelperMounter::Watch() {
  static constexpr std::chrono::milliseconds kFirstRest{10};
  Clock::duration rest{};
  if (!StartNext()) return;
  for (Clock::time_point started = Clock::now(); AwaitEnd(); started = Clock::now()) {
    const bool soon = Clock::now() - started < kSoon;
    rest = soon ? std::clamp<Clock::duration>(rest * 2, kFirstRest, kLongestRest) : Clock::duration{};
    NoteEnd();
    if (!Rest(rest) || !StartNext()) return;
  }
}

// Killed, while one of its threads hangs in the kernel: its sockets stay open until that ends.
bool HelperMounter::EndIsHidden() const {
  if (!IsDead(helper_.pid)) return false;
  log::Error("the mount helper has ended, and the kernel holds one of its threads in a call that hangs",
             {{"pid", fmt::format("{}", helper_.pid)}});
  return true;
}

bool HelperMounter::AwaitEnd() {
  // Only this thread changes helper_: its socket stays while we wait.
  std::array waited = {pollfd{helper_.control.get(), POLLIN, 0}, pollfd{keeper_.socket().get(), POLLIN, 0},
                       pollfd{wake_.get(), POLLIN, 0}};
  for (;;) {
    const int events = ::poll(waited.data(), waited.size(), kLook);
    if (events > 0) break;
    if (events == 0 && EndIsHidden()) return true;
  }
  if (waited[2].revents != 0) return false;
  if (waited[1].revents != 0) NoteLoss(waited[0].revents != 0);
  return waited[1].revents == 0;
}

void HelperMounter::NoteEnd() {
  const std::lock_guard<std::mutex> lock(mutex_);
  health_ = Unavailable(fmt::format(
      "the mount helper (process {}) has ended and another one is being started; what is mounted stays", helper_.pid));
  helper_.pid = -1;
  ++generation_;  // what is lent out is not the next one's
  idle_.clear();
  // Those who wait on it: of one whose end is hidden they would not learn.
  for (const int channel : lent_) ::shutdown(channel, SHUT_RDWR);
  changed_.notify_all();
}

bool HelperMounter::StartNext() {
  for (;;) {
    absl::StatusOr<HelperProcess> next = keeper_.StartHelper();
    if (next.ok()) {
      if (generation_ > 0) {
        log::Error("the mount helper ended; another one was started",
                   {{"how", next->predecessor}, {"pid", fmt::format("{}", next->pid)}});
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      helper_ = *std::move(next);
      if (generation_ > 0) ++restarts_;
      health_ = absl::OkStatus();
      changed_.notify_all();
      return true;
    }
    if (absl::IsUnavailable(next.status())) {
      NoteLoss(true);
      return false;
    }
    log::Error("cannot start a mount helper", {{"cause", Message(next.status())}});
    if (!Rest(kLongestRest)) return false;
  }
}

void HelperMounter::NoteLoss(bool helper_too) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;  // we hung up ourselves
    health_ = Unavailable(fmt::format(
        "the keeper of the mount helper (process {}) has ended, and no helper can be started: start the plugin again",
        keeper_.pid()));
    if (helper_too) helper_.pid = -1;
    stopping_ = helper_too;  // nobody waits for one
    log::Error("the mount helper cannot be replaced", {{"cause", Message(health_)}});
    changed_.notify_all();
  }
  if (lost_) lost_();
}

bool HelperMounter::Rest(Clock::duration time) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_; });
  return !stopping_;
}

}  // namespace mooring
