// Background work in lanes. Each lane has a few threads of its own, so work that hangs delays only its own lane. A
// lane has threads only while it has work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class WorkLanes {
 public:
  using Work = std::function<void()>;

  explicit WorkLanes(int width) : width_(width) {}  // the most threads of a lane
  ~WorkLanes() { Stop(); }

  // Runs `work` after `delay`, in the order of the pushes. Ignored after Stop.
  void Push(const std::string& lane, Work work, Clock::duration delay = {});

  // Drops work that has not begun, and waits for work that has.
  void Stop();

 private:
  struct Lane {
    std::deque<Work> queue;
    int threads = 0;
  };

  // Called under mutex_:
  void Enqueue(const std::string& lane, Work work);
  void Reap();
  void StartTimer();

  void Run(const std::string& lane, std::list<std::thread>::iterator self);
  void KeepTime();

  const int width_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<std::string, Lane> lanes_;
  std::multimap<Clock::time_point, std::pair<std::string, Work>> later_;
  std::thread timer_;  // started with the first delayed work
  std::list<std::thread> running_, finished_;
};

}  // namespace mooring::manager
