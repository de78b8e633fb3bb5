// Threads for calls that may block.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mooring::http {

class Workers {
 public:
  // Starts a thread when a job finds none that is free, at most `most`. Further jobs wait.
  explicit Workers(std::size_t most) : most_(most) {}
  ~Workers();  // waits for all jobs
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: there is no thread, and none can be started. Then the job does not run.
  bool Run(std::function<void()> job);

 private:
  void Work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::size_t idle_ = 0;  // threads that wait for a job
  bool ended_ = false;
  std::vector<std::thread> threads_;  // used by the thread that calls Run
};

}  // namespace mooring::http
