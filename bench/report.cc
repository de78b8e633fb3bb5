#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace mooring::bench {
namespace {

constexpr double kMedianGoal = 150, kTailGoal = 400;  // microseconds; the goal is this or
constexpr double kFloorFactor = 2.0;                  // this multiple of the floor, whichever is larger
constexpr double kGrowthGoal = 1.3;

const char* Verdict(bool met) { return met ? "met" : "NOT MET"; }

void PrintLine(const std::string& what, const std::string& value, const std::string& goal, bool met) {
  fmt::print("  {:<42} {:>16}   {:<34} {}\n", what, value, goal, Verdict(met));
}

}  // namespace

void PrintGoal(const std::string& what, double value, const std::string& unit, double goal, bool at_least) {
  PrintLine(what, fmt::format("{:.2f} {}", value, unit),
            fmt::format("{} {:g}", at_least ? "at least" : "at most", goal), at_least ? value >= goal : value <= goal);
}

void Report::Add(int mounts, const std::string& operation, const Samples& samples) {
  samples_.insert_or_assign({mounts, operation}, samples);
  most_mounts_ = std::max(most_mounts_, mounts);
  fmt::print("  {:<42} {:>9.0f} {:>9.0f}\n", operation, samples.At(0.5), samples.At(0.99));
}

void Report::AddFigure(const std::string& what, double value, const std::string& unit, double goal, bool at_least) {
  figures_.push_back({what, unit, value, goal, at_least});
  fmt::print("  {:<42} {:>9.1f} {}\n", what, value, unit);
}

double Report::Median(int mounts, const std::string& operation) const {
  return samples_.at({mounts, operation}).At(0.5);
}

void Report::PrintLatency(const std::string& operation, const std::string& floor) const {
  const Samples& samples = samples_.at({0, operation});
  const double bound = kFloorFactor * Median(0, floor);
  const double goal = std::max(kMedianGoal, bound);
  PrintLine(operation + ", p50", fmt::format("{:.0f} us", samples.At(0.5)),
            fmt::format("{:.0f}, or 2.0 x floor = {:.0f}", kMedianGoal, bound), samples.At(0.5) <= goal);
  const double tail = std::max(kTailGoal, kFloorFactor * samples_.at({0, floor}).At(0.99));
  PrintLine(operation + ", p99", fmt::format("{:.0f} us", samples.At(0.99)),
            fmt::format("{:.0f}, or 2.0 x floor = {:.0f}", kTailGoal, tail), samples.At(0.99) <= tail);
}

void Report::PrintGrowth(const std::string& operation) const {
  // If the machine has become slower meanwhile, the empty call shows it, too.
  const double machine = Median(most_mounts_, kProbe) / Median(0, kProbe);
  const double growth = Median(most_mounts_, operation) / Median(0, operation);
  PrintLine(fmt::format("{}, 0 to {} mounts", operation, most_mounts_), fmt::format("{:.2f} x", growth),
            fmt::format("{:.1f} x (empty call: {:.2f} x)", kGrowthGoal, machine), growth <= kGrowthGoal);
}

void Report::PrintGoals() const {
  fmt::print("goals\n");
  PrintLatency(kPublish, kFloorPublish);
  PrintLatency(kUnpublish, kFloorUnpublish);
  if (most_mounts_ > 0) {
    for (const char* operation : {kPublish, kUnpublish, kStats, kStage, kUnstage}) PrintGrowth(operation);
  }
  constexpr std::pair<const char*, double> kStaging[] = {{kFresh, 6000}, {kFormatted, 2000}};
  for (const auto& [operation, goal] : kStaging) {
    PrintLine(operation, fmt::format("{:.0f} us", Median(0, operation)), fmt::format("{:.0f}", goal),
              Median(0, operation) <= goal);
  }
  for (const Figure& each : figures_) PrintGoal(each.what, each.value, each.unit, each.goal, each.at_least);
}

}  // namespace mooring::bench
