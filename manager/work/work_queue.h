// The work that the manager still has to do: an entry for each record whose state is not yet what is wanted.
//
//   a failure, the start   ─▶ WorkKind::Push ──▶ WorkQueue ──▶ attempt: read the record, do one step, store it
//   the plugin is healthy  ─▶ TryNow(lane) ──▶  │              OK: the entry goes      an error: again, after a pause
//
// An attempt that fails is repeated after 1, 2, 4 … 60 s. Work of one kind for one lane has a few threads of its own,
// and has them only while there is such work. A lane is what the attempt calls and what may hang: a plugin, one of its
// instances, or a container engine. So it delays only its own work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

class WorkKind;

struct WorkItem {
  std::string key;                        // unique in its kind; people read it
  std::string lane = {};                  // the plugin, instance or engine that is called; "": none
  std::function<absl::Status()> attempt;  // OK: nothing is left to do. May throw, which is an error
  std::string problem = {};               // why it is not done yet, if a try has failed before
};

// For people: what is not done yet, and why.
struct OwedWork {
  std::string kind, key, plugin;            // plugin: the lane
  Time since = {};                          // of its Push
  int tries = 0;                            // that have failed
  std::string problem;                      // of the last one
  std::optional<Clock::duration> next_try;  // from now; nullopt: it is being tried
};

// Safe from several threads. Outlives its WorkKind objects.
class WorkQueue {
 public:
  WorkQueue() = default;
  ~WorkQueue() { Stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // All that waits in this lane is tried now, and after short pauses again. An attempt that runs is repeated at once,
  // but only if it fails. Waits for nothing.
  void TryNow(const std::string& lane);

  std::vector<OwedWork> List() const;  // without what is routine and has not failed

  // How long that list is, by kind and plugin. It has each kind, and each plugin that work has been for.
  std::map<std::pair<std::string, std::string>, int> Count() const;

  void BeginStop();  // begins no more attempts
  void Stop();       // BeginStop, then waits for the attempts that run

 private:
  friend class WorkKind;

  enum class State { kWaiting, kReady, kRunning };
  struct Entry {
    WorkKind* of;
    WorkItem item;
    Time since = {};
    State state = State::kWaiting;
    Clock::time_point due = {};              // kWaiting
    std::optional<Clock::time_point> again;  // kRunning: it was pushed meanwhile,
    std::function<absl::Status()> next;      // with this attempt
    bool hurry = false;                      // kRunning: if it fails, it is tried again at once
    Clock::duration pause = {};              // after the next failure
    int tries = 0;
    std::string problem;
  };
  using Key = std::pair<const WorkKind*, std::string>;
  struct Lane {
    std::deque<Entry*> ready;
    int threads = 0;
  };

  void Push(WorkKind& of, WorkItem item, Clock::duration delay);
  void TryNow(const WorkKind& of);
  void Drop(WorkKind& of);           // what has not begun
  void WaitFor(const WorkKind& of);  // for its attempts that run
  bool WaitUntilTried(const WorkKind& of, Clock::time_point until);

  // Called under mutex_:
  void Schedule(Entry& entry, Clock::time_point due);
  void Hurry(Entry& entry);
  void WakeUp(Entry& entry, Clock::time_point due);
  void MakeReady(Entry& entry);
  std::vector<std::function<absl::Status()>> Conclude(Entry& entry, const absl::Status& status);
  void StartTimer();
  void Reap();

  void Run(const Key& lane, std::list<std::thread>::iterator self);
  void KeepTime();

  mutable std::mutex mutex_;  // guards all below; no attempt is made or destroyed under it
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<Key, Entry> entries_;
  std::set<std::pair<std::string, std::string>> seen_;  // kinds, and plugins of their entries so far
  std::set<std::pair<Clock::time_point, Entry*>> waiting_;
  std::map<Key, Lane> lanes_;
  std::thread timer_;         // started with the first entry that waits
  bool lacks_timer_ = false;  // it could not be started, and the log says so
  std::list<std::thread> running_, finished_;
};

// The work of one kind.
class WorkKind {
 public:
  struct Settings {
    std::string kind;  // "attachment"
    int width = 1;     // threads for each lane
    Clock::duration first_retry = std::chrono::seconds(1), longest_retry = std::chrono::seconds(60);
    bool is_routine = false;  // it comes again and again, or lasts: List has it only after a failure
  };

  WorkKind(WorkQueue& queue, Settings settings);
  ~WorkKind() { Stop(); }
  WorkKind(const WorkKind&) = delete;
  WorkKind& operator=(const WorkKind&) = delete;

  // Attempts it after `delay`. An entry with this key that is there already is tried then, if that is sooner; an
  // attempt that runs is followed by another one. The newest `attempt` counts. Ignored after the stop.
  void Push(WorkItem item, Clock::duration delay = {}) { queue_.Push(*this, std::move(item), delay); }

  // Attempts it after `delay`, and `pause` after each success.
  void Repeat(const std::string& key, Clock::duration pause, const std::function<absl::Status()>& attempt,
              Clock::duration delay = {});

  void TryNow() { queue_.TryNow(*this); }  // as TryNow of the queue, for all entries of this kind

  bool Has(const std::string& key) const;  // whether it is not done yet

  // Returns when nothing is due: all has been tried, and is done or waits for its next try. False: not by `until`.
  bool WaitUntilTried(Clock::time_point until) { return queue_.WaitUntilTried(*this, until); }

  void BeginStop() { queue_.Drop(*this); }  // drops what has not begun
  // BeginStop, then waits for attempts that run. Called before anything that they use is destroyed.
  void Stop() {
    BeginStop();
    queue_.WaitFor(*this);
  }

 private:
  friend class WorkQueue;

  WorkQueue& queue_;
  const Settings settings_;
  bool stopped_ = false;  // guarded by the queue's mutex
};

}  // namespace mooring::manager
