#include "manager/attach/work_lanes.h"

#include <exception>
#include <system_error>

#include "base/log.h"

namespace mooring::manager {

namespace {

constexpr std::chrono::seconds kWithoutThreads{1};  // before one is tried to be made again

// SQLite or memory: the manager goes on, and so does the lane.
void Do(const WorkLanes::Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    log::Error("work in the background was given up", {{"cause", error.what()}});
  }
}

}  // namespace

void WorkLanes::Push(const std::string& lane, Work work, Clock::duration delay) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  if (delay <= Clock::duration::zero()) {
    Enqueue(lane, std::move(work));
    return;
  }
  later_.emplace(Clock::now() + delay, std::make_pair(lane, std::move(work)));
  StartTimer();
  changed_.notify_all();
}

// Where there is no thread for it either, the next one that comes for later tries again.
void WorkLanes::StartTimer() {
  if (timer_.joinable()) return;
  try {
    timer_ = std::thread([this] { KeepTime(); });
  } catch (const std::system_error& error) {
    log::Error("no thread to keep the time of work in the background: it waits", {{"cause", error.what()}});
  }
}

void WorkLanes::Enqueue(const std::string& name, Work work) {
  Reap();
  Lane& lane = lanes_[name];
  lane.queue.push_back(std::move(work));
  if (lane.threads >= width_) return;
  const auto self = running_.emplace(running_.end());
  try {
    *self = std::thread([this, name, self] { Run(name, self); });  // which waits for mutex_
    ++lane.threads;
  } catch (const std::system_error& error) {
    running_.erase(self);
    if (lane.threads > 0) return;  // those take it on
    log::Error("no thread for work in the background: it waits", {{"lane", name}, {"cause", error.what()}});
    later_.emplace(Clock::now() + kWithoutThreads, std::make_pair(name, std::move(lane.queue.back())));
    lanes_.erase(name);
    changed_.notify_all();
    StartTimer();
  }
}

void WorkLanes::Run(const std::string& name, std::list<std::thread>::iterator self) {
  std::unique_lock<std::mutex> lock(mutex_);
  Lane& lane = lanes_[name];  // it goes with its last thread
  while (!stopping_ && !lane.queue.empty()) {
    Work work = std::move(lane.queue.front());
    lane.queue.pop_front();
    lock.unlock();
    Do(work);
    work = nullptr;
    lock.lock();
  }
  if (--lane.threads == 0) lanes_.erase(name);
  finished_.splice(finished_.end(), running_, self);
  changed_.notify_all();
}

// They have let mutex_ go for good: whoever is in finished_ put itself there with it held, and has nothing left to do.
void WorkLanes::Reap() {
  std::list<std::thread> done;
  done.swap(finished_);
  for (std::thread& thread : done) thread.join();
}

void WorkLanes::KeepTime() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (later_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point due = later_.begin()->first; due > Clock::now()) {
      changed_.wait_until(lock, due);
    } else {
      auto [lane, work] = std::move(later_.extract(later_.begin()).mapped());
      Enqueue(lane, std::move(work));
    }
  }
}

void WorkLanes::Stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_.empty(); });
  std::list<std::thread> done;
  done.swap(finished_);
  std::thread timer = std::move(timer_);
  later_.clear();
  lock.unlock();
  for (std::thread& thread : done) thread.join();
  if (timer.joinable()) timer.join();
}

}  // namespace mooring::manager
