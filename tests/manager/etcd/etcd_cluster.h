// A real etcd cluster of three members on loopback, in a temporary directory. It dies with the test program.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace mooring::testing {

class EtcdCluster {
 public:
  // `flags`: for each member. Waits until all members serve.
  explicit EtcdCluster(std::vector<std::string> flags = {});
  ~EtcdCluster();

  std::string endpoints() const;   // "etcd://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
  void Kill(std::size_t member);   // with SIGKILL
  void Start(std::size_t member);  // again, with its data
  void Signal(std::size_t member, int signal);
  int Control(const std::vector<std::string>& command);  // runs etcdctl; gives its exit status

 private:
  static constexpr std::size_t kMembers = 3;
  std::string PeerUrl(std::size_t member) const;

  const std::vector<std::string> flags_;
  TempDir directory_;
  std::array<int, kMembers> client_ports_{};
  std::array<int, kMembers> peer_ports_{};
  std::array<pid_t, kMembers> pids_{};
};

// A cluster for all tests of the program. The first call starts it.
EtcdCluster& SharedCluster();

}  // namespace mooring::testing
