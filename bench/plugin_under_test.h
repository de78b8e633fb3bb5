// The plugin under test, in a mount namespace of this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

namespace mooring::bench {

// Throws std::system_error with errno and `what`.
void Check(bool ok, std::string_view what);

struct Memory {
  double resident_mib = 0;      // RSS, pages that processes share counted for each
  double proportional_mib = 0;  // PSS, counted once
};

// The plugin ends with the object, or with this process if that is killed. The mounts end with the last of both. The
// directory exists and is empty at the start; the caller removes it.
class PluginUnderTest {
 public:
  PluginUnderTest(const std::string& plugin, std::string directory);
  PluginUnderTest(const PluginUnderTest&) = delete;
  PluginUnderTest& operator=(const PluginUnderTest&) = delete;
  ~PluginUnderTest();

  std::string operator/(const std::string& name) const { return directory_ + "/" + name; }
  std::string socket() const { return directory_ + "/csi.sock"; }

  // Adds bind mounts until there are `count` more mounts than at the start.
  void FillTo(int count);

  // The memory of the plugin and its descendants, after two seconds without calls.
  Memory IdleMemory() const;

  // The time from the fork of another plugin to its first answer to Probe. That plugin has its own directory, which all
  // calls of this function share.
  std::chrono::nanoseconds TimeToFirstAnswer(const std::string& plugin) const;

 private:
  static pid_t StartPlugin(const std::string& plugin, const std::string& socket, const std::string& state_dir);

  std::string directory_;
  pid_t plugin_ = -1;
  int filled_ = 0;
};

}  // namespace mooring::bench
