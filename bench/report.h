// The results, with their floors and goals.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/samples.h"

namespace mooring::bench {

// Prints a line with a figure, its goal, and whether it is met. The goal is the maximum, or with `at_least` the
// minimum.
void PrintGoal(const std::string& what, double value, const std::string& unit, double goal, bool at_least = false);

class Report {
 public:
  // The times of an operation with this number of mounts in the namespace. Prints them, and keeps them for the goals.
  void Add(int mounts, const std::string& operation, const Samples& samples);

  // Any other figure, with its goal: see PrintGoal.
  void AddFigure(const std::string& what, double value, const std::string& unit, double goal, bool at_least = false);

  // Prints each goal, and whether it is met.
  void PrintGoals() const;

 private:
  struct Figure {
    std::string what, unit;
    double value, goal;
    bool at_least;
  };
  double Median(int mounts, const std::string& operation) const;
  void PrintLatency(const std::string& operation, const std::string& floor) const;
  void PrintGrowth(const std::string& operation) const;

  std::map<std::pair<int, std::string>, Samples> samples_;
  std::vector<Figure> figures_;
  int most_mounts_ = 0;
};

// The operations that have goals.
inline constexpr char kProbe[] = "an empty gRPC call (Probe)";
inline constexpr char kPublish[] = "publish";
inline constexpr char kUnpublish[] = "unpublish";
inline constexpr char kStats[] = "stats";
inline constexpr char kStage[] = "stage formatted ext4";
inline constexpr char kUnstage[] = "unstage ext4";
inline constexpr char kFresh[] = "stage + publish fresh 1 GiB ext4";
inline constexpr char kFormatted[] = "stage + publish formatted ext4";
inline constexpr char kFloorPublish[] = "floor: Probe + bare bind";
inline constexpr char kFloorUnpublish[] = "floor: Probe + bare unmount";

}  // namespace mooring::bench
