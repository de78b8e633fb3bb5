// Where the figures are taken: a mount namespace of this process's own, and a plugin started in it.
#ifndef MOORING_BENCH_SURROUNDINGS_H_
#define MOORING_BENCH_SURROUNDINGS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace mooring::bench {

// Throws std::system_error with errno and `what`.
void Check(bool ok, std::string_view what);

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

 private:
  void StartPlugin(const std::string& plugin);

  std::string directory_;
  pid_t plugin_ = -1;
  int filled_ = 0;
};

}  // namespace mooring::bench

#endif  // MOORING_BENCH_SURROUNDINGS_H_
