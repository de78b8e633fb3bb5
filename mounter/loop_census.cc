#include "mounter/loop_census.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace mooring {
namespace {

// What answers takes microseconds; a server under load may take longer once in a while.
constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kPatienceAfterThat{50};  // a hundred of them may lie on the same server

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

// One round of questions. The thread that hangs keeps it, hence shared.
struct Census {
  std::vector<unsigned> numbers;
  AskLoop ask;

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t next = 0;  // to be asked
  int asker = 0;         // which thread it is that asks
  absl::Status status;
  std::vector<LoopInfo> loops;
  std::vector<unsigned> silent;
};

void AskOn(const std::shared_ptr<Census>& census, int asker) {
  for (;;) {
    std::unique_lock<std::mutex> lock(census->mutex);
    if (census->asker != asker || census->next == census->numbers.size()) return;
    const unsigned number = census->numbers[census->next];
    lock.unlock();
    absl::StatusOr<std::optional<LoopInfo>> loop = census->ask(number);
    lock.lock();
    if (census->asker != asker) return Hung().Remove(number);  // given up meanwhile
    ++census->next;
    if (!loop.ok()) census->status = loop.status();
    if (loop.ok() && *loop) census->loops.push_back(**std::move(loop));
    census->changed.notify_all();
  }
}

// False: one hangs, the one before `next` by then.
bool AwaitAnswers(Census& census, std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(census.mutex);
  for (;;) {
    const std::size_t asked = census.next;
    if (asked == census.numbers.size()) return true;
    if (census.changed.wait_for(lock, patience, [&] { return census.next != asked; })) continue;
    Hung().Add(census.numbers[asked]);
    census.silent.push_back(census.numbers[asked]);
    ++census.next;
    ++census.asker;
    return false;
  }
}

}  // namespace

absl::StatusOr<std::vector<LoopInfo>> AskLoops(const std::vector<unsigned>& numbers, const AskLoop& ask,
                                               const std::function<LoopInfo(unsigned number)>& hung) {
  const auto census = std::make_shared<Census>();
  census->ask = ask;
  for (const unsigned number : numbers) {
    (Hung().Has(number) ? census->silent : census->numbers).push_back(number);
  }
  for (int asker = 0; census->next < census->numbers.size(); ++asker) {
    try {
      std::thread(AskOn, census, asker).detach();
    } catch (const std::system_error& error) {
      return Internal(std::string("no thread to ask the loop devices with: ") + error.what());
    }
    if (AwaitAnswers(*census, asker == 0 ? kPatience : kPatienceAfterThat)) break;
  }
  const std::lock_guard<std::mutex> lock(census->mutex);
  MOORING_RETURN_IF_ERROR(census->status);
  std::vector<LoopInfo> loops = std::move(census->loops);
  for (const unsigned number : census->silent) loops.push_back(hung(number));
  return loops;
}

}  // namespace mooring
