#include "cli/output/progress.h"

#include <fmt/format.h>

#include <utility>

#include "base/text/terminal_text.h"

namespace mooring::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{500};
constexpr char kWipe[] = "\r\033[K";  // moves to the beginning of the line and clears it

}  // namespace

Progress::Progress(std::string call, std::ostream& terminal, std::chrono::milliseconds patience)
    : call_(std::move(call)), terminal_(terminal), patience_(patience), thread_(&Progress::Show, this) {}

Progress::~Progress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Progress::Say(std::string step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_ = ": " + Visible(step);
}

void Progress::Show() {
  const Clock::time_point start = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  if (changed_.wait_for(lock, patience_, [this] { return over_; })) return;
  do {
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start);
    terminal_ << kWipe << fmt::format("{}{}: {} s", call_, step_, elapsed.count()) << std::flush;
  } while (!changed_.wait_for(lock, kTick, [this] { return over_; }));
  terminal_ << kWipe << std::flush;
}

}  // namespace mooring::cli
