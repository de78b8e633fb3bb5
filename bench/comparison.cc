#include "bench/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/driver.h"
#include "bench/plugin_client.h"
#include "bench/rate.h"
#include "bench/report.h"
#include "bench/samples.h"
#include "bench/volume.h"

namespace mooring::bench {
namespace {

using Clock = Samples::Clock;

constexpr int kPublishes = 5;                    // of each volume
constexpr int kClients = 8;                      // where there are several
constexpr std::chrono::milliseconds kTurn{300};  // of each driver in a round
constexpr std::chrono::milliseconds kRate{500};  // of each rate in a round
constexpr std::chrono::seconds kTime{45};        // no round begins later

enum Call {
  kEmpty,
  kCreate,
  kFirstStage,
  kNextStage,
  kPublishing,
  kReadStats,
  kUnpublishing,
  kUnstaging,
  kDelete,
  kEmptyRate,
  kPairRate,
  kCrowdRate,
};

// In the order of Call.
constexpr const char* kCalls[] = {
    "empty call (Probe)",
    "create, 1 GiB",
    "stage, first",
    "stage, used before",
    "publish",
    "stats",
    "unpublish",
    "unstage",
    "delete",
    "empty calls, 8 clients",
    "pub. + unpub., 1 client",
    "pub. + unpub., 8 clients",
};
bool IsRate(Call call) { return call >= kEmptyRate; }

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

volatile std::sig_atomic_t interrupted = 0;

// A driver and its figures.
class Measured {
 public:
  explicit Measured(std::unique_ptr<Driver> driver) : driver_(std::move(driver)), client_(driver_->socket()) {
    client_.AwaitReady();
    offers_ = client_.Ask();
  }

  // In microseconds, or a second. NaN if the driver does not offer the call.
  double Median(Call call) const {
    const auto found = samples_.find(call);
    return found == samples_.end() ? kNoFigure : found->second.At(0.5);
  }

  void TakeTurn() {
    const Clock::time_point end = Clock::now() + kTurn;
    do {
      Time(kEmpty, true, [&] { client_.Probe(); });
      if (offers_.create_delete) LiveOnce();
    } while (Clock::now() < end && interrupted == 0);
  }

  void MeasureRates() {
    samples_[kEmptyRate].Add(EmptyCallsASecond(*driver_, kClients, kRate));
    if (!offers_.create_delete || !offers_.node) return;
    samples_[kPairRate].Add(PairsASecond(*driver_, 1, kRate, offers_.stage_unstage));
    samples_[kCrowdRate].Add(PairsASecond(*driver_, kClients, kRate, offers_.stage_unstage));
  }

 private:
  // The life of a volume.
  void LiveOnce() {
    const bool stages = offers_.stage_unstage;
    Volume volume(client_, *driver_, "bench", stages);
    Time(kCreate, true, [&] { volume.Create(); });
    Time(kFirstStage, stages, [&] { volume.Stage(); });
    Time(kUnstaging, stages, [&] { volume.Unstage(); });
    Time(kNextStage, stages, [&] { volume.Stage(); });
    for (int i = 0; i < kPublishes && offers_.node; ++i) {
      Time(kEmpty, true, [&] { client_.Probe(); });
      Time(kPublishing, true, [&] { volume.Publish(); });
      Time(kReadStats, offers_.stats, [&] { volume.Stats(); });
      Time(kUnpublishing, true, [&] { volume.Unpublish(); });
    }
    Time(kUnstaging, stages, [&] { volume.Unstage(); });
    Time(kDelete, true, [&] { volume.Delete(); });
  }

  void Time(Call call, bool offered, const std::function<void()>& work) {
    if (offered) samples_[call].Time(work);
  }

  std::unique_ptr<Driver> driver_;
  PluginClient client_;
  Offers offers_;
  std::map<Call, Samples> samples_;
};

struct Contestant {
  std::string name;
  Command command;          // empty: it runs already,
  std::string socket = {};  // and serves this
};

// Each driver of a list, once for each number of other mounts. The others are compared with the first of the list.
class Comparison {
 public:
  Comparison(const std::string& directory, std::vector<Contestant> contestants, std::vector<int> counts)
      : contestants_(std::move(contestants)), counts_(std::move(counts)) {
    OtherMounts others(directory + "/others");
    for (const int count : counts_) {
      for (const Contestant& each : contestants_) {
        const std::string own = fmt::format("{}/{}-{}", directory, each.name, count);
        auto driver = each.command.empty() ? std::make_unique<Driver>(own, each.socket)
                                           : std::make_unique<Driver>(own, each.command);
        others.FillTo(count);
        measured_.push_back(std::make_unique<Measured>(std::move(driver)));
      }
    }
  }

  void Measure(bool with_rates) {
    with_rates_ = with_rates;
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = 1; });
    for (const Clock::time_point end = Clock::now() + kTime; Clock::now() < end && interrupted == 0;) {
      ++rounds_;
      for (const auto& driver : measured_) driver->TakeTurn();
      if (!with_rates) continue;
      for (const auto& driver : measured_) driver->MeasureRates();
    }
    if (interrupted != 0) throw std::runtime_error("interrupted");
  }

  void Print() const {
    fmt::print("{} rounds; medians in us (and in empty calls of the same driver), or a second\n{:<38}", rounds_, "");
    for (const int count : counts_) fmt::print("{:>20}", counts_.size() > 1 ? fmt::format("{} mounts", count) : "");
    if (counts_.size() > 1) fmt::print("{:>10}", "growth");
    if (contestants_.size() > 1) fmt::print("   x {}", contestants_[0].name);
    fmt::print("\n");
    for (std::size_t call = 0; call < (with_rates_ ? std::size(kCalls) : std::size_t{kEmptyRate}); ++call) {
      for (std::size_t who = 0; who < contestants_.size(); ++who) PrintLine(static_cast<Call>(call), who);
    }
  }

  // The figure with most mounts / the figure with fewest.
  double Growth(Call call, std::size_t who) const {
    return At(who, counts_.size() - 1).Median(call) / At(who, 0).Median(call);
  }

  // The figure / that of the first driver with the same number of mounts.
  double Ratio(Call call, std::size_t who, std::size_t count) const {
    return At(who, count).Median(call) / At(0, count).Median(call);
  }

 private:
  const Measured& At(std::size_t who, std::size_t count) const { return *measured_[count * contestants_.size() + who]; }

  void PrintLine(Call call, std::size_t who) const {
    fmt::print("{:<26}{:<12}", who == 0 ? kCalls[call] : "", contestants_[who].name);
    for (std::size_t count = 0; count < counts_.size(); ++count) {
      const double figure = At(who, count).Median(call);
      if (std::isnan(figure)) {
        fmt::print("{:>20}", "not offered");
      } else if (IsRate(call)) {
        fmt::print("{:>18.0f}/s", figure);
      } else {
        fmt::print("{:>11.0f} {:>8}", figure, fmt::format("({:.1f})", figure / At(who, count).Median(kEmpty)));
      }
    }
    if (counts_.size() > 1) fmt::print("{:>10.2f}", Growth(call, who));
    for (std::size_t count = 0; who > 0 && count < counts_.size(); ++count)
      fmt::print("{:>8.2f}", Ratio(call, who, count));
    fmt::print("\n");
  }

  std::vector<Contestant> contestants_;
  std::vector<int> counts_;
  std::vector<std::unique_ptr<Measured>> measured_;
  bool with_rates_ = true;
  int rounds_ = 0;
};

}  // namespace

void MeasureOther(const std::string& directory, const std::string& socket) {
  Comparison comparison(directory, {{"driver", {}, socket}}, {0});
  comparison.Measure(true);
  comparison.Print();
}

void CompareWithReference(const std::string& directory, const std::string& plugin, const Command& reference) {
  Comparison comparison(directory, {{"hostpath", reference}, {"mooring", PluginCommand(plugin)}}, {0});
  comparison.Measure(true);
  comparison.Print();
  fmt::print("goals, x hostpath\n");
  constexpr std::pair<Call, double> kGoals[] = {{kEmptyRate, 1}, {kPairRate, 25}, {kCrowdRate, 50}};
  for (const auto& [call, goal] : kGoals) PrintGoal(kCalls[call], comparison.Ratio(call, 1, 0), "x", goal, true);
}

void CompareKernels(const std::string& directory, const std::string& plugin, const std::string& without, int mounts) {
  std::vector<Contestant> kernels = {{"newest", PluginCommand(plugin)}};
  for (const char* name : {"linux-6.1", "linux-5.14"}) {
    Command command = {without, name, "--"};
    for (const std::string& word : PluginCommand(plugin)) command.push_back(word);
    kernels.push_back({name, command});
  }
  Comparison comparison(directory, kernels, {0, mounts});
  comparison.Measure(false);
  comparison.Print();
  fmt::print("goals, for the kernel with the largest\n");
  for (const Call call : {kPublishing, kReadStats, kUnpublishing, kNextStage, kUnstaging}) {
    double growth = 0, ratio = 0;
    for (std::size_t kernel = 0; kernel < kernels.size(); ++kernel) {
      growth = std::max(growth, comparison.Growth(call, kernel));
      for (const std::size_t count : {0, 1}) ratio = std::max(ratio, comparison.Ratio(call, kernel, count));
    }
    PrintGoal(fmt::format("growth of {}", kCalls[call]), growth, "x", 1.3);
    PrintGoal(fmt::format("{}, x newest", kCalls[call]), ratio, "x", 1.2);
  }
}

}  // namespace mooring::bench
