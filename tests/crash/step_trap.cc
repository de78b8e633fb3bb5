#include "tests/crash/step_trap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/crash/kernel_errors.h"
#include "tests/rpc/support/helper_processes.h"

namespace mooring::testing {
namespace {

// Puts the filter on this thread and on all that it starts.
UniqueFd TrapThisThread() {
  std::vector<sock_filter> filter = StepFilter();
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return UniqueFd(
      static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)));
}

// Parents come before children, so that no child sees its parent end first.
std::vector<pid_t> Tree(pid_t root) {
  std::vector<pid_t> tree = {root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const std::vector<pid_t> children = ChildrenOf(tree[i]);
    tree.insert(tree.end(), children.begin(), children.end());
  }
  return tree;
}

}  // namespace

StepTrap::StepTrap(std::string directory)
    : directory_(std::move(directory)),
      ending_(::eventfd(0, EFD_CLOEXEC)),
      null_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  std::unique_lock<std::mutex> lock(mutex_);
  launcher_ = std::thread(&StepTrap::LaunchInTurn, this);
  changed_.wait(lock, [this] { return ready_; });
  if (announced_.ok()) watcher_ = std::thread(&StepTrap::Watch, this);
}

// Processes that still have the filter get ENOSYS from now on.
StepTrap::~StepTrap() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  launcher_.join();  // it may open a file at its end, and that is announced
  const std::uint64_t one = 1;
  if (::write(ending_.get(), &one, sizeof(one)) < 0) std::abort();
  if (watcher_.joinable()) watcher_.join();
}

void StepTrap::LaunchInTurn() {
  UniqueFd announced = TrapThisThread();
  std::unique_lock<std::mutex> lock(mutex_);
  announced_ = std::move(announced);
  ready_ = true;
  changed_.notify_all();
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || start_; });
    if (ended_) return;
    lock.unlock();
    const pid_t root = start_();  // calls of this thread are announced, too
    lock.lock();
    root_ = root;
    start_ = nullptr;
    changed_.notify_all();
  }
}

void StepTrap::Launch(const std::function<pid_t()>& start) {
  std::unique_lock<std::mutex> lock(mutex_);
  start_ = start;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !start_; });
}

void StepTrap::Arm(const Fault& fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fault_ = fault;
  counted_ = 0;
  outcome_ = Outcome();
}

StepTrap::Outcome StepTrap::Disarm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  fault_.reset();
  return std::exchange(outcome_, Outcome());
}

void StepTrap::Watch() {
  for (;;) {
    std::array waited = {pollfd{announced_.get(), POLLIN, 0}, pollfd{ending_.get(), POLLIN, 0}};
    if (::poll(waited.data(), waited.size(), -1) < 0) continue;
    if (waited[1].revents != 0) return;
    if ((waited[0].revents & POLLIN) != 0) Answer();
  }
}

void StepTrap::Answer() {
  seccomp_notif call = {};
  if (::ioctl(announced_.get(), SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;  // the process was killed meanwhile
  const std::optional<int> error = Judge(call);
  if (!error) return;
  seccomp_notif_resp answer = {};
  answer.id = call.id;
  answer.error = -*error;
  if (*error != 0 && call.data.nr == SYS_close) CloseFile(call);
  if (*error == 0) answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ::ioctl(announced_.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

// The kernel closes a file also if close(2) fails. The number of the descriptor stays in use, with /dev/null.
void StepTrap::CloseFile(const seccomp_notif& call) {
  seccomp_notif_addfd put = {};
  put.id = call.id;
  put.flags = SECCOMP_ADDFD_FLAG_SETFD;
  put.srcfd = static_cast<__u32>(null_.get());
  put.newfd = static_cast<__u32>(call.data.args[0]);
  put.newfd_flags = O_CLOEXEC;
  ::ioctl(announced_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &put);
}

// A search through /proc has other steps than when they were counted, because processes come and go. So the step with
// the number of the fault may be another one now.
static bool CanFailWith(const Step& step, int error) {
  const std::vector<int> errors = ErrorsOf(step);
  return std::find(errors.begin(), errors.end(), error) != errors.end();
}

std::optional<int> StepTrap::Judge(const seccomp_notif& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!fault_ || (outcome_.hit && fault_->error == 0)) return 0;
  const std::optional<Step> step = StepOf(call, directory_);
  if (!step || step->process == ::getpid()) return 0;  // made by the launcher
  if (!fault_->program.empty() && step->program != fault_->program) return 0;
  if (outcome_.hit) {
    outcome_.after.push_back(*step);
    return 0;
  }
  outcome_.steps.push_back(*step);
  if (!fault_->kind.empty() && KindOf(*step) != fault_->kind) return 0;
  // A kill before a step that changes nothing equals a kill before the next change.
  if (fault_->kind.empty() && fault_->error == 0 && IsOnlyForErrors(*step)) return 0;
  if (++counted_ != fault_->nth) return 0;
  if (fault_->error != 0 && !CanFailWith(*step, fault_->error)) return 0;
  outcome_.hit = step;
  if (fault_->error != 0) return fault_->error;
  const bool alone = !fault_->program.empty() || start_;  // start_: the root was just forked, and root_ is not set yet
  std::vector<pid_t> killed;
  if (!alone) killed = Tree(root_);
  killed.push_back(step->process);  // also if the tree changed while it was read: nobody answers its call
  for (const pid_t process : killed) ::kill(process, SIGKILL);
  return std::nullopt;
}

}  // namespace mooring::testing
