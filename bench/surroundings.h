// Where the figures are taken: a mount namespace and a directory of this process's own, and a plugin started in them.
#ifndef MOORING_BENCH_SURROUNDINGS_H_
#define MOORING_BENCH_SURROUNDINGS_H_

#include <sys/types.h>

#include <string>

namespace mooring::bench {

// All of it goes with the object. Throws std::system_error where the machine does not let it.
class Surroundings {
 public:
  explicit Surroundings(const std::string& plugin);
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
