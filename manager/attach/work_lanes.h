// Work in the background, in lanes: each lane has a few threads of its own, so that work which hangs holds up its lane
// and no other. Threads are there only while their lane has work.
#ifndef MOORING_MANAGER_ATTACH_WORK_LANES_H_
#define MOORING_MANAGER_ATTACH_WORK_LANES_H_

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

  explicit WorkLanes(int width) : width_(width) {}  // threads a lane at most
  ~WorkLanes() { Stop(); }

  // In the order they were pushed, as threads are free; after `delay`. Nothing happens after Stop.
  void Push(const std::string& lane, Work work, Clock::duration delay = {});

  // What has not begun never does; waits for what has.
  void Stop();

 private:
  struct Lane {
    std::deque<Work> queue;
    int threads = 0;
  };

  void Enqueue(const std::string& lane, Work work);  // these under mutex_
  void Reap();
  void StartTimer();

  void Run(const std::string& lane, std::list<std::thread>::iterator self);
  void KeepTime();

  const int width_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<std::string, Lane> lanes_;
  std::multimap<Clock::time_point, std::pair<std::string, Work>> later_;
  std::thread timer_;  // once there is something for later
  std::list<std::thread> running_, finished_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_ATTACH_WORK_LANES_H_
