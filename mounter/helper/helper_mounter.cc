#include "mounter/helper/helper_mounter.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/child.h"
#include "base/deadline.h"
#include "base/file/await_input.h"
#include "base/file/whole_file.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/wire.h"

namespace mooring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestWait{60};
constexpr std::chrono::seconds kRestartPatience{5};
constexpr std::chrono::milliseconds kNoticePatience{250};
constexpr std::chrono::milliseconds kFullPause{5};
constexpr std::chrono::milliseconds kHangingPatience{100};  // when its server goes on, a hanging call ends soon
constexpr int kMostHangingOnPath = 4;                       // each holds a thread of the helper
constexpr int kStateCheck = 1000;                           // milliseconds between two checks of the helper's state
constexpr std::chrono::seconds kSoon{1};                    // after a helper that ends earlier, the next start waits
constexpr std::chrono::seconds kLongestPause{1};

Clock::time_point DeadlineOfThread() {
  const Clock::time_point latest = Clock::now() + kLongestWait;
  return std::min(DeadlineScope::Now().value_or(latest), latest);
}

// A killed process with a thread that hangs in the kernel still exists and keeps its files open. The leader of its
// thread group is then a zombie, for which waitpid(2) does not return yet: proc(5).
bool IsDead(pid_t pid) {
  if (!OpenPidFd(pid).ok()) return errno == ESRCH;
  const std::string line = FirstLine(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return false;  // hidden by hidepid: it may be alive
  const char state = line[name_end + 2];
  return state == 'Z' || state == 'X' || state == 'x';
}

}  // namespace

absl::StatusOr<std::unique_ptr<HelperMounter>> HelperMounter::Start(HelperSpawner spawner, std::function<void()> lost) {
  std::unique_ptr<HelperMounter> mounter(new HelperMounter(std::move(spawner), std::move(lost)));
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
  spawner_.Disconnect();  // wakes a watcher that waits for a stopped spawner
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

// ---- channels

absl::StatusOr<pb::Answer> HelperMounter::Ask(pb::Request request, const CallPolicy& policy) {
  if (request.ByteSizeLong() > wire::kMostRequest) {
    return InvalidArgument("{} {}: the request is too long", policy.doing, Quote(policy.path, 256));
  }
  if (DeadlineScope::HasPassed()) {
    return absl::DeadlineExceededError(
        fmt::format("{} {}: not tried: the deadline of the call has passed", policy.doing, Quote(policy.path)));
  }
  const Clock::time_point start = Clock::now(), deadline = DeadlineOfThread();
  absl::Status allowed = CheckHanging(policy);
  while (!allowed.ok() && !policy.read_only && Clock::now() < std::min(deadline, start + kHangingPatience)) {
    std::this_thread::sleep_for(kFullPause);
    allowed = CheckHanging(policy);
  }
  MOORING_RETURN_IF_ERROR(allowed);
  absl::StatusOr<pb::Answer> answer = AskOnce(request, policy, deadline);
  // Another helper is starting by now, so the second attempt waits for it.
  if (absl::IsUnavailable(answer.status()) && policy.read_only) answer = AskOnce(request, policy, deadline);
  if (!answer.ok()) return answer;
  if (absl::Status status = wire::StatusOf(*answer); !status.ok()) return status;
  return answer;
}

absl::StatusOr<pb::Answer> HelperMounter::AskOnce(pb::Request& request, const CallPolicy& policy,
                                                  Clock::time_point deadline) {
  const Clock::time_point start = Clock::now();
  MOORING_ASSIGN_OR_RETURN(Lease lease, LeaseAndSend(request, policy, deadline));
  const Clock::time_point until = policy.limit ? start + *policy.limit : deadline;
  pb::Answer answer;
  const absl::Status received = lease.channel.Receive(answer, wire::kMostAnswer, until);
  if (absl::IsDeadlineExceeded(received)) return Abandon(std::move(lease), policy, Clock::now() - start);
  if (!received.ok()) {
    const std::uint64_t generation = lease.generation;
    Drop(std::move(lease));
    if (absl::IsInvalidArgument(received)) return Internal("read the mount helper's answer: " + Message(received));
    // Its sockets are not all closed at once: the next call could still send to one that nobody reads.
    AwaitNext(generation, Clock::now() + kNoticePatience).IgnoreError();
    return Unavailable("{} {}: the mount helper ended during the call: call again", policy.doing, Quote(policy.path));
  }
  Return(std::move(lease));
  return answer;
}

// A request that could not be sent has reached no helper. So the next helper gets it, even if it changes something.
absl::StatusOr<HelperMounter::Lease> HelperMounter::LeaseAndSend(pb::Request& request, const CallPolicy& policy,
                                                                 Clock::time_point deadline) {
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(Lease lease, LeaseChannel(deadline));
    if (policy.conditional) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      request.set_patience_ms(static_cast<std::uint64_t>(std::max<std::int64_t>(left.count(), 1)));
    }
    const absl::Status sent = lease.channel.Send(request);
    if (sent.ok()) return lease;
    const std::uint64_t generation = lease.generation;
    Drop(std::move(lease));
    if (!absl::IsUnavailable(sent)) return sent;
    MOORING_RETURN_IF_ERROR(AwaitNext(generation, deadline));
  }
}

absl::StatusOr<HelperMounter::Lease> HelperMounter::LeaseChannel(Clock::time_point deadline) {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto patience = std::min(deadline, Clock::now() + kRestartPatience);
    changed_.wait_until(lock, patience, [this] { return helper_.pid >= 0 || stopping_; });
    if (helper_.pid < 0)
      return health_.ok() ? Unavailable("no mount helper runs: it does not start, or ends at once") : health_;
    const std::uint64_t generation = generation_;
    if (!idle_.empty()) {
      Lease lease = {std::move(idle_.back()), generation};
      idle_.pop_back();
      leased_.insert(lease.channel.fd().get());
      return lease;
    }
    MOORING_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair(SOCK_STREAM));
    const absl::Status sent = SendParcel(helper_.control, 0, pair.theirs, Full::kReturn);
    if (sent.ok()) {
      leased_.insert(pair.ours.get());
      return Lease{Channel(std::move(pair.ours)), generation};
    }
    lock.unlock();
    if (absl::IsResourceExhausted(sent)) {
      if (Clock::now() + kFullPause >= deadline) return absl::DeadlineExceededError(sent.message());
      std::this_thread::sleep_for(kFullPause);  // channels become free as other calls end
      continue;
    }
    if (!absl::IsUnavailable(sent)) return sent;
    MOORING_RETURN_IF_ERROR(AwaitNext(generation, deadline));
  }
}

// Waits until the watcher has noticed the end of this helper.
absl::Status HelperMounter::AwaitNext(std::uint64_t generation, Clock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto patience = std::min(deadline, Clock::now() + kRestartPatience);
  changed_.wait_until(lock, patience, [&] { return generation_ != generation || stopping_; });
  if (generation_ != generation) return absl::OkStatus();
  return health_.ok() ? Unavailable("the mount helper has ended") : health_;
}

void HelperMounter::Return(Lease lease) {
  const std::lock_guard<std::mutex> lock(mutex_);
  leased_.erase(lease.channel.fd().get());
  if (lease.generation == generation_ && idle_.size() < kMostIdle) idle_.push_back(std::move(lease.channel));
}

// Closes the channel, after its descriptor was removed from leased_: the number may be reused at once.
void HelperMounter::Drop(Lease lease) {
  const std::lock_guard<std::mutex> lock(mutex_);
  leased_.erase(lease.channel.fd().get());
}

// The channel stays open until the helper's thread answers, so that hanging calls can be counted.
absl::Status HelperMounter::Abandon(Lease lease, const CallPolicy& policy, Clock::duration waited) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    leased_.erase(lease.channel.fd().get());
    hanging_.push_back({std::move(lease.channel), policy.path, policy.read_only || policy.never_late});
  }
  return absl::DeadlineExceededError(
      fmt::format("{} {}: no answer in {:.1f} s: the filesystem there hangs, or the server or device below it (FUSE, "
                  "NFS); end or repair that, and call again",
                  policy.doing, Quote(policy.path), std::chrono::duration<double>(waited).count()));
}

std::size_t HelperMounter::hanging() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<std::size_t>(std::count_if(hanging_.begin(), hanging_.end(),
                                                [](const Hanging& call) { return !HasInput(call.channel.fd()); }));
}

// Limits the hanging calls, so that a caller that retries every minute does not use up the threads of the helper.
absl::Status HelperMounter::CheckHanging(const CallPolicy& policy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (hanging_.empty()) return absl::OkStatus();
  std::erase_if(hanging_, [](const Hanging& call) { return HasInput(call.channel.fd()); });
  const auto here =
      std::count_if(hanging_.begin(), hanging_.end(), [&](const Hanging& call) { return call.path == policy.path; });
  // A hanging mount or unmount may still take effect, and would then undo or cover a later change.
  const bool changing = std::any_of(hanging_.begin(), hanging_.end(), [&](const Hanging& call) {
    return call.path == policy.path && !call.read_only && !policy.read_only;
  });
  if (changing) {
    return absl::DeadlineExceededError(
        fmt::format("{} {}: not tried: an earlier call that changes this path still hangs; end or repair the server or "
                    "device of the filesystem there",
                    policy.doing, Quote(policy.path)));
  }
  if (here < kMostHangingOnPath && hanging_.size() < kMostHanging) return absl::OkStatus();
  return absl::DeadlineExceededError(fmt::format(
      "{} {}: not tried: {} calls hang there, {} in all; end or repair the server or device of the filesystem there",
      policy.doing, Quote(policy.path), here, hanging_.size()));
}

// ---- the watcher

void HelperMounter::Watch() {
  static constexpr std::chrono::milliseconds kFirstPause{10};
  Clock::duration pause{};
  if (!StartNext()) return;
  for (Clock::time_point started = Clock::now(); AwaitEnd(); started = Clock::now()) {
    const bool soon = Clock::now() - started < kSoon;
    pause = soon ? std::clamp<Clock::duration>(pause * 2, kFirstPause, kLongestPause) : Clock::duration{};
    RecordEnd();
    if (!Sleep(pause) || !StartNext()) return;
  }
}

// The sockets of a killed helper stay open while one of its threads hangs in the kernel, so poll(2) does not see its
// end.
bool HelperMounter::EndIsHidden() const {
  if (!IsDead(helper_.pid)) return false;
  log::Error("the mount helper was killed, and the kernel holds one of its threads in a call that hangs",
             {{"pid", fmt::format("{}", helper_.pid)}});
  return true;
}

bool HelperMounter::AwaitEnd() {
  // Only this thread changes helper_, so the socket stays open during the wait.
  std::array waited = {pollfd{helper_.control.get(), POLLIN, 0}, pollfd{spawner_.socket().get(), POLLIN, 0},
                       pollfd{wake_.get(), POLLIN, 0}};
  for (;;) {
    const int events = ::poll(waited.data(), waited.size(), kStateCheck);
    if (events > 0) break;
    if (events == 0 && EndIsHidden()) return true;
  }
  if (waited[2].revents != 0) return false;
  if (waited[1].revents != 0) RecordSpawnerEnd(waited[0].revents != 0);
  return waited[1].revents == 0;
}

void HelperMounter::RecordEnd() {
  const std::lock_guard<std::mutex> lock(mutex_);
  health_ = Unavailable("the mount helper (process {}) has ended and another one is being started; all mounts stay",
                        helper_.pid);
  helper_.pid = -1;
  ++generation_;  // leased channels do not belong to the next helper
  idle_.clear();
  // Wakes the waiting calls: while a hung thread holds the sockets open, they would never see their end.
  for (const int channel : leased_) ::shutdown(channel, SHUT_RDWR);
  changed_.notify_all();
}

bool HelperMounter::StartNext() {
  for (;;) {
    absl::StatusOr<HelperProcess> next = spawner_.StartHelper();
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
      RecordSpawnerEnd(true);
      return false;
    }
    log::Error("cannot start a mount helper", {{"cause", Message(next.status())}});
    if (!Sleep(kLongestPause)) return false;
  }
}

void HelperMounter::RecordSpawnerEnd(bool helper_too) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;  // the destructor disconnected it
    health_ = Unavailable(
        "the spawner of the mount helper (process {}) has ended, and no helper can be started: restart the plugin",
        spawner_.pid());
    if (helper_too) helper_.pid = -1;
    stopping_ = helper_too;  // no call waits for another helper
    log::Error("the mount helper cannot be replaced", {{"cause", Message(health_)}});
    changed_.notify_all();
  }
  if (lost_) lost_();
}

bool HelperMounter::Sleep(Clock::duration time) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_; });
  return !stopping_;
}

}  // namespace mooring
