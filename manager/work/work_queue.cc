#include "manager/work/work_queue.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/status.h"

namespace mooring::manager {
namespace {

constexpr std::chrono::seconds kThreadRetry{1};  // after a thread could not be started

// An exception (SQLite, out of memory) is an error.
absl::Status Attempt(const std::function<absl::Status()>& attempt) {
  try {
    return attempt();
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

}  // namespace

void WorkQueue::Push(WorkKind& of, WorkItem item, Clock::duration delay) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_ || of.stopped_) return;
  const Clock::time_point due = Clock::now() + delay;
  const auto [place, is_new] = entries_.try_emplace(Key(&of, item.key));
  Entry& entry = place->second;
  if (!is_new) {
    std::swap(entry.state == State::kRunning ? entry.next : entry.item.attempt, item.attempt);
    WakeUp(entry, due);
    return StartTimer();
  }
  entry.of = &of;
  entry.item = std::move(item);
  if (!of.settings_.is_routine) seen_.emplace(of.settings_.kind, entry.item.lane);
  entry.since = std::chrono::system_clock::now();
  entry.pause = of.settings_.first_retry;
  entry.problem = entry.item.problem;
  Schedule(entry, due);
  StartTimer();
}

void WorkQueue::TryNow(const std::string& lane) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.item.lane == lane) Hurry(entry);
  }
  StartTimer();
}

void WorkQueue::TryNow(const WorkKind& of) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, entry] : entries_) {
    if (entry.of == &of) Hurry(entry);
  }
  StartTimer();
}

void WorkQueue::Hurry(Entry& entry) {
  entry.pause = entry.of->settings_.first_retry;
  if (entry.state == State::kRunning) {
    entry.hurry = true;
  } else {
    WakeUp(entry, Clock::now());
  }
}

// Brings the next attempt forward.
void WorkQueue::WakeUp(Entry& entry, Clock::time_point due) {
  if (entry.state == State::kRunning) {
    entry.again = std::min(due, entry.again.value_or(due));
  } else if (entry.state == State::kWaiting && due < entry.due) {
    waiting_.erase({entry.due, &entry});
    Schedule(entry, due);
  }
}

void WorkQueue::Schedule(Entry& entry, Clock::time_point due) {
  entry.state = State::kWaiting;
  entry.due = due;
  if (due <= Clock::now()) {
    MakeReady(entry);
    return;
  }
  waiting_.emplace(due, &entry);
  StartTimer();
  changed_.notify_all();
}

// If the thread cannot be started, the next entry that is pushed, hurried or done tries again.
void WorkQueue::StartTimer() {
  if (timer_.joinable() || waiting_.empty() || stopping_) return;
  try {
    timer_ = std::thread([this] { KeepTime(); });
  } catch (const std::system_error& error) {
    if (std::exchange(lacks_timer_, true)) return;
    log::Error("cannot start the timer thread: unfinished work waits", {{"cause", error.what()}});
  }
}

void WorkQueue::MakeReady(Entry& entry) {
  Reap();
  const Key name(entry.of, entry.item.lane);
  Lane& lane = lanes_[name];
  entry.state = State::kReady;
  lane.ready.push_back(&entry);
  if (lane.threads >= entry.of->settings_.width) return;
  const auto self = running_.emplace(running_.end());
  try {
    *self = std::thread([this, name, self] { Run(name, self); });  // the thread waits for mutex_
    ++lane.threads;
  } catch (const std::system_error& error) {
    running_.erase(self);
    if (lane.threads > 0) return;  // other threads of the lane take it
    log::Error("cannot start a thread: unfinished work waits",
               {{"kind", entry.of->settings_.kind}, {"plugin", entry.item.lane}, {"cause", error.what()}});
    lanes_.erase(name);
    Schedule(entry, Clock::now() + kThreadRetry);
  }
}

void WorkQueue::Run(const Key& name, std::list<std::thread>::iterator self) {
  std::unique_lock<std::mutex> lock(mutex_);
  Lane& lane = lanes_[name];  // deleted by its last thread
  while (!stopping_ && !lane.ready.empty()) {
    Entry& entry = *lane.ready.front();
    lane.ready.pop_front();
    entry.state = State::kRunning;
    entry.again.reset();
    entry.hurry = false;
    lock.unlock();
    const absl::Status status = Attempt(entry.item.attempt);
    lock.lock();
    std::vector<std::function<absl::Status()>> done = Conclude(entry, status);
    lock.unlock();
    done.clear();
    lock.lock();
    StartTimer();
  }
  if (--lane.threads == 0) lanes_.erase(name);
  finished_.splice(finished_.end(), running_, self);
  changed_.notify_all();
}

// Gives the attempts that are not made again.
std::vector<std::function<absl::Status()>> WorkQueue::Conclude(Entry& entry, const absl::Status& status) {
  changed_.notify_all();
  std::vector<std::function<absl::Status()>> done;
  if (stopping_ || entry.of->stopped_ || (status.ok() && !entry.again)) {
    done = {std::move(entry.item.attempt), std::move(entry.next)};
    entries_.erase(Key(entry.of, entry.item.key));
    return done;
  }
  if (entry.next) done.push_back(std::exchange(entry.item.attempt, std::exchange(entry.next, nullptr)));
  if (status.ok()) {  // it was pushed anew
    entry.since = std::chrono::system_clock::now();
    entry.pause = entry.of->settings_.first_retry;
    entry.tries = 0;
    entry.problem.clear();
    Schedule(entry, *entry.again);
    return done;
  }
  const Clock::time_point due = Clock::now() + (entry.hurry ? Clock::duration::zero() : entry.pause);
  ++entry.tries;
  entry.problem = Message(status);
  entry.pause = std::min(2 * entry.pause, entry.of->settings_.longest_retry);
  Schedule(entry, std::min(due, entry.again.value_or(due)));
  return done;
}

// A thread moves itself to finished_ under mutex_ as its last act, so join() does not wait long.
void WorkQueue::Reap() {
  std::list<std::thread> done;
  done.swap(finished_);
  for (std::thread& thread : done) thread.join();
}

void WorkQueue::KeepTime() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
    } else if (const Clock::time_point due = waiting_.begin()->first; due > Clock::now()) {
      changed_.wait_until(lock, due);
    } else {
      Entry* const entry = waiting_.begin()->second;
      waiting_.erase(waiting_.begin());
      MakeReady(*entry);
    }
  }
}

std::vector<OwedWork> WorkQueue::List() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  std::vector<OwedWork> all;
  for (const auto& [key, entry] : entries_) {
    if (entry.of->settings_.is_routine && entry.tries == 0) continue;
    OwedWork owed{entry.of->settings_.kind,
                  entry.item.key,
                  entry.item.lane,
                  entry.since,
                  entry.tries,
                  entry.problem,
                  std::nullopt};
    if (entry.state == State::kWaiting) owed.next_try = std::max(entry.due - now, Clock::duration::zero());
    all.push_back(std::move(owed));
  }
  return all;
}

std::map<std::pair<std::string, std::string>, int> WorkQueue::Count() const {
  const std::vector<OwedWork> all = List();
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const OwedWork& owed : all) ++counts[{owed.kind, owed.plugin}];
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& of : seen_) counts.try_emplace(of, 0);
  return counts;
}

bool WorkQueue::WaitUntilTried(const WorkKind& of, Clock::time_point until) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_tried = [&](const auto& each) {
    return each.second.of != &of || (each.second.state == State::kWaiting && each.second.due > Clock::now());
  };
  return changed_.wait_until(lock, until, [&] { return std::all_of(entries_.begin(), entries_.end(), is_tried); });
}

void WorkQueue::Drop(WorkKind& of) {
  std::list<std::map<Key, Entry>::node_type> dropped;  // destroyed after the unlock
  const std::lock_guard<std::mutex> lock(mutex_);
  of.stopped_ = true;
  for (auto& [name, lane] : lanes_) {
    if (name.first == &of) lane.ready.clear();
  }
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto each = next++;
    Entry& entry = each->second;
    if (entry.of != &of || entry.state == State::kRunning) continue;
    waiting_.erase({entry.due, &entry});
    dropped.push_back(entries_.extract(each));
  }
}

void WorkQueue::WaitFor(const WorkKind& of) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_of = [&](const auto& lane) { return lane.first.first == &of; };
  changed_.wait(lock, [&] { return std::none_of(lanes_.begin(), lanes_.end(), is_of); });
}

void WorkQueue::BeginStop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void WorkQueue::Stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_.empty(); });
  std::list<std::thread> done;
  done.swap(finished_);
  std::thread timer = std::move(timer_);
  lock.unlock();
  for (std::thread& thread : done) thread.join();
  if (timer.joinable()) timer.join();
}

WorkKind::WorkKind(WorkQueue& queue, Settings settings) : queue_(queue), settings_(std::move(settings)) {
  const std::lock_guard<std::mutex> lock(queue_.mutex_);
  if (!settings_.is_routine) queue_.seen_.emplace(settings_.kind, "");
}

void WorkKind::Repeat(const std::string& key, Clock::duration pause, const std::function<absl::Status()>& attempt,
                      Clock::duration delay) {
  const auto once = [this, key, pause, attempt] {
    absl::Status status = attempt();
    if (status.ok()) Repeat(key, pause, attempt, pause);
    return status;
  };
  Push({.key = key, .attempt = once}, delay);
}

bool WorkKind::Has(const std::string& key) const {
  const std::lock_guard<std::mutex> lock(queue_.mutex_);
  return queue_.entries_.contains(WorkQueue::Key(this, key));
}

}  // namespace mooring::manager
