#include "bench/rate.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "bench/plugin_client.h"
#include "bench/volume.h"

namespace mooring::bench {
namespace {

// A client does the same work over and over, in a thread of its own.
class Worker {
 public:
  explicit Worker(const std::function<void()>& work)
      : thread_([this, work] {
          try {
            for (; !over_; ++done_) work();
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { Stop(); }

  int done() const { return done_; }
  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void ThrowError() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> over_{false};
  std::atomic<int> done_{0};
  std::exception_ptr error_;
  std::thread thread_;  // uses the members above
};

int DoneBy(const std::list<Worker>& workers) {
  int done = 0;
  for (const Worker& worker : workers) done += worker.done();
  return done;
}

double RateOf(const std::vector<std::function<void()>>& works, std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  std::list<Worker> workers;
  for (const std::function<void()>& work : works) workers.emplace_back(work);
  const int before = DoneBy(workers);
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(time);
  const int done = DoneBy(workers) - before;
  const std::chrono::duration<double> took = Clock::now() - start;
  for (Worker& worker : workers) worker.Stop();
  for (const Worker& worker : workers) worker.ThrowError();
  return done / took.count();
}

}  // namespace

double EmptyCallsASecond(const Driver& driver, int clients, std::chrono::milliseconds time) {
  std::list<PluginClient> connections;
  std::vector<std::function<void()>> works;
  for (int i = 0; i < clients; ++i) {
    PluginClient& client = connections.emplace_back(driver.socket());
    client.Probe();  // connects
    works.emplace_back([&client] { client.Probe(); });
  }
  return RateOf(works, time);
}

double PairsASecond(const Driver& driver, int clients, std::chrono::milliseconds time, bool stages) {
  std::list<PluginClient> connections;
  std::list<Volume> volumes;
  std::vector<std::function<void()>> works;
  for (int i = 0; i < clients; ++i) {
    PluginClient& client = connections.emplace_back(driver.socket());
    Volume& volume = volumes.emplace_back(client, driver, fmt::format("client-{}", i), stages);
    volume.Create();
    if (stages) volume.Stage();
    works.emplace_back([&volume] {
      volume.Publish();
      volume.Unpublish();
    });
  }
  return RateOf(works, time);
}

}  // namespace mooring::bench
