// A line on a terminal that shows how long a call has been under way. It is cleared when the answer arrives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

namespace mooring::cli {

class Progress {
 public:
  // Shows nothing for a call that ends within `patience`.
  Progress(std::string call, std::ostream& terminal, std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets the step of the call: "Attach: stage: 3 s".
  void Say(std::string step);

 private:
  void Show();

  const std::string call_;
  std::ostream& terminal_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace mooring::cli
