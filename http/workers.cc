#include "http/workers.h"

#include <system_error>
#include <utility>

namespace mooring::http {

Workers::~Workers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::Run(std::function<void()> job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_ <= jobs_.size() && threads_.size() < most_) {
    try {
      threads_.emplace_back(&Workers::Work, this);
    } catch (const std::system_error&) {  // a limit of processes
      if (threads_.empty()) return false;
    }
  }
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void Workers::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace mooring::http
