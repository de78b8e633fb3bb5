#include "manager/attach/work_lanes.h"

#include <exception>
#include <system_error>

#include "base/log.h"

namespace mooring::manager {

namespace {

constexpr std::chrono::seconds kThreadRetry{1};  // after a thread could not be started

// After an exception (SQLite, out of memory) the lane goes on.
void RunGuarded(const WorkLanes::Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    log::Error("background work failed, and is not repeated", {{"cause", error.what()}});
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

// If the thread cannot be started, the next delayed work tries again.
void WorkLanes::StartTimer() {
  if (timer_.joinable()) return;
  try {
    timer_ = std::thread([this] { KeepTime(); });
  } catch (const std::system_error& error) {
    log::Error("cannot start the timer thread: delayed background work waits", {{"cause", error.what()}});
  }
}

void WorkLanes::Enqueue(const std::string& name, Work work) {
  Reap();
  Lane& lane = lanes_[name];
  lane.queue.push_back(std::move(work));
  if (lane.threads >= width_) return;
  const auto self = running_.emplace(running_.end());
  try {
    *self = std::thread([this, name, self] { Run(name, self); });  // the thread waits for mutex_
    ++lane.threads;
  } catch (const std::system_error& error) {
    running_.erase(self);
    if (lane.threads > 0) return;  // other threads of the lane take it
    log::Error("cannot start a thread: background work waits", {{"lane", name}, {"cause", error.what()}});
    later_.emplace(Clock::now() + kThreadRetry, std::make_pair(name, std::move(lane.queue.back())));
    lanes_.erase(name);
    changed_.notify_all();
    StartTimer();
  }
}

void WorkLanes::Run(const std::string& name, std::list<std::thread>::iterator self) {
  std::unique_lock<std::mutex> lock(mutex_);
  Lane& lane = lanes_[name];  // deleted by its last thread
  while (!stopping_ && !lane.queue.empty()) {
    Work work = std::move(lane.queue.front());
    lane.queue.pop_front();
    lock.unlock();
    RunGuarded(work);
    work = nullptr;
    lock.lock();
  }
  if (--lane.threads == 0) lanes_.erase(name);
  finished_.splice(finished_.end(), running_, self);
  changed_.notify_all();
}

// A thread moves itself to finished_ under mutex_ as its last act, so join() does not wait long.
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
