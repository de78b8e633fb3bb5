#include "mounter/loop/loop_census.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/exception.h"
#include "base/status.h"

namespace mooring {
namespace {

// An answer takes microseconds. A server under load may take longer once in a while.
constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kPatienceAfterThat{50};  // a hundred devices may lie on the same server

class HungDevices {
 public:
  bool Has(unsigned number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return numbers_.contains(number);
  }
  void Add(unsigned number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    numbers_.insert(number);
  }
  void Remove(unsigned number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    numbers_.erase(number);
  }

 private:
  std::mutex mutex_;
  std::set<unsigned> numbers_;
};

HungDevices& Hung() {
  static auto* const hung = new HungDevices;  // threads that hang may outlive main()
  return *hung;
}

// A list of all devices under way. Shared, because a thread that hangs keeps it.
struct Census {
  std::vector<unsigned> numbers;
  AskLoop ask;

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t next = 0;                                               // to be asked
  int asker = 0;                                                      // the number of the thread that asks now
  std::optional<std::chrono::steady_clock::time_point> asking_since;  // for `next`; empty: its thread has not started
  absl::Status status;
  std::vector<LoopInfo> loops;
  std::vector<unsigned> silent;
};

void AskOn(const std::shared_ptr<Census>& census, int asker) {
  for (;;) {
    std::unique_lock<std::mutex> lock(census->mutex);
    if (census->asker != asker || census->next == census->numbers.size()) return;
    const unsigned number = census->numbers[census->next];
    census->asking_since = std::chrono::steady_clock::now();
    lock.unlock();
    absl::StatusOr<std::optional<LoopInfo>> loop = census->ask(number);
    lock.lock();
    if (census->asker != asker) return Hung().Remove(number);  // given up meanwhile
    ++census->next;
    census->asking_since.reset();
    if (!loop.ok()) census->status = loop.status();
    if (loop.ok() && *loop) census->loops.push_back(**std::move(loop));
    census->changed.notify_all();
  }
}

// False: the device before the new `next` hangs. This takes a thread that is asking, because only that thread removes
// the device from the hung ones again. A thread that got no processor yet says nothing about a device.
bool AwaitAnswers(Census& census, std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(census.mutex);
  for (;;) {
    const std::size_t asked = census.next;
    if (asked == census.numbers.size()) return true;
    if (census.changed.wait_for(lock, patience, [&] { return census.next != asked; })) continue;
    if (!census.asking_since || std::chrono::steady_clock::now() - *census.asking_since < patience) continue;
    Hung().Add(census.numbers[asked]);
    census.silent.push_back(census.numbers[asked]);
    ++census.next;
    ++census.asker;
    census.asking_since.reset();
    return false;
  }
}

void StartThread(std::function<void()> work) { std::thread(std::move(work)).detach(); }

}  // namespace

absl::StatusOr<std::vector<LoopInfo>> AskLoops(const std::vector<unsigned>& numbers, const AskLoop& ask,
                                               const AskLoop& hung, const StartAsker& start) {
  const auto census = std::make_shared<Census>();
  census->ask = ask;
  for (const unsigned number : numbers) {
    (Hung().Has(number) ? census->silent : census->numbers).push_back(number);
  }
  for (int asker = 0; census->next < census->numbers.size(); ++asker) {
    try {
      (start ? start : StartAsker(StartThread))([census, asker] { AskOn(census, asker); });
    } catch (const std::system_error& error) {
      return Annotate(ExceptionStatus(error), "ask the loop devices");
    }
    if (AwaitAnswers(*census, asker == 0 ? kPatience : kPatienceAfterThat)) break;
  }
  const std::lock_guard<std::mutex> lock(census->mutex);
  MOORING_RETURN_IF_ERROR(census->status);
  std::vector<LoopInfo> loops = std::move(census->loops);
  for (const unsigned number : census->silent) {
    MOORING_ASSIGN_OR_RETURN(std::optional<LoopInfo> loop, hung(number));
    if (loop) loops.push_back(*std::move(loop));
  }
  return loops;
}

}  // namespace mooring
