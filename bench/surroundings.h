// Where the figures are taken: a mount namespace of this process's own, and a plugin started in it.
#ifndef MOORING_BENCH_SURROUNDINGS_H_
#define MOORING_BENCH_SURROUNDINGS_H_

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

// The plugin ends with the object, or with this process if that is killed; every mount goes with the last of the two.
// The directory, which is there and empty at the start, is the caller's to remove.
class Surroundings {
 public:
  Surroundings(const std::string& plugin, std::string directory);
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;
  ~Surroundings();

  std::string operator/(const std::string& name) const { return directory_ + "/" + name; }
  std::string socket() const { return directory_ + "/csi.sock"; }

  // Binds until there are `count` mounts more than at the start, the way a busy node has them: many small binds.
  void FillTo(int count);

  // Of the plugin and of all that it has started, after a moment without calls.
  Memory IdleMemory() const;

  // From the fork of another plugin to its answer to a Probe. Its directory is one of its own, there since the first
  // time.
  std::chrono::nanoseconds TimeToFirstAnswer(const std::string& plugin) const;

 private:
  static pid_t StartPlugin(const std::string& plugin, const std::string& socket, const std::string& state_dir);

  std::string directory_;
  pid_t plugin_ = -1;
  int filled_ = 0;
};

}  // namespace mooring::bench

#endif  // MOORING_BENCH_SURROUNDINGS_H_
