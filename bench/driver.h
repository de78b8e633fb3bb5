// The drivers under test, and the mounts around them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring::bench {

// Throws std::system_error with errno and `what`.
void Check(bool ok, std::string_view what);

struct Memory {
  double resident_mib = 0;      // RSS, pages that processes share counted for each
  double proportional_mib = 0;  // PSS, counted once
};

// A program and its arguments, which serves CSI at {}/csi.sock. Each "{}" stands for the directory of the driver.
using Command = std::vector<std::string>;
Command PluginCommand(const std::string& plugin);

// A driver with a directory, where the caller creates volumes' paths below `staging` and `targets`. The caller removes
// the directory.
class Driver {
 public:
  // Starts the driver in a copy of this process's mount namespace, which this process enters, too. The driver ends with
  // the object, or with this process if that is killed. The mounts end with the last of both.
  Driver(const std::string& directory, const Command& command);

  // A driver that runs already.
  Driver(std::string directory, std::string socket);

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  std::string operator/(const std::string& name) const { return directory_ + "/" + name; }
  const std::string& socket() const { return socket_; }

  // The memory of the driver and its descendants, after two seconds without calls.
  Memory IdleMemory() const;

 private:
  std::string directory_, socket_;
  pid_t pid_ = -1;
};

// The time from the fork of a driver to its first answer to Probe.
std::chrono::nanoseconds TimeToFirstAnswer(const std::string& directory, const Command& command);

// Bind mounts that no driver knows, in a directory in the mount namespace of this process.
class OtherMounts {
 public:
  explicit OtherMounts(std::string directory) : directory_(std::move(directory)) {}
  void FillTo(int count);

 private:
  std::string directory_;
  int filled_ = 0;
};

}  // namespace mooring::bench
