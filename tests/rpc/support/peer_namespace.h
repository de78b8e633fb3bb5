// A mount namespace beside the test's own, as a task's container has one: what is shared here propagates between both.
#ifndef MOORING_TESTS_RPC_SUPPORT_PEER_NAMESPACE_H_
#define MOORING_TESTS_RPC_SUPPORT_PEER_NAMESPACE_H_

#include <sys/types.h>

#include <string>

namespace mooring::testing {

class PeerNamespace {
 public:
  PeerNamespace();  // a copy of this process's, shared mounts still shared
  PeerNamespace(const PeerNamespace&) = delete;
  PeerNamespace& operator=(const PeerNamespace&) = delete;
  ~PeerNamespace();

  int Run(const std::string& shell_command) const;  // in there; its exit status
  std::string MountInfo() const;                    // /proc/<pid>/mountinfo of there

 private:
  pid_t pid_ = -1;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_SUPPORT_PEER_NAMESPACE_H_
