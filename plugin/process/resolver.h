// Finds the addresses of the servers of pools, also after this process has given up its right to use the network. It is
// a process of its own for each name, with the user nobody (ConfineResolver). So no name waits for another one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "plugin/config/run_as.h"

namespace mooring {

class Resolver {
 public:
  // Forks the processes of the `names` that are no addresses. Call it while this process has one thread and its
  // privileges.
  static absl::StatusOr<std::unique_ptr<Resolver>> Start(const std::vector<std::string>& names, const RunAs& user);

  // The addresses of one of the names, at least one. UNAVAILABLE: it has none now, or nobody answers. Thread-safe.
  absl::StatusOr<std::vector<std::string>> Find(const std::string& name);

 private:
  struct Asked {
    UniqueFd socket;  // its process ends when it is closed
    std::uint32_t round = 0;
    std::mutex asking = {};
  };
  Resolver() = default;

  std::map<std::string, Asked> asked_;  // by name
};

}  // namespace mooring
