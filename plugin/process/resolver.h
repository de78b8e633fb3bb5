// Finds the addresses of the servers of pools, also after this process has given up its right to use the network. It is
// a process of its own, without privileges. It knows only the names that it was started with.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "plugin/config/run_as.h"

namespace mooring {

class Resolver {
 public:
  // Forks the process, unless all `names` are addresses. Call it while this process has one thread and its privileges.
  static absl::StatusOr<std::unique_ptr<Resolver>> Start(std::vector<std::string> names, const RunAs& user);

  // The addresses of one of the names, at least one. UNAVAILABLE: it has none now, or nobody answers. Thread-safe.
  absl::StatusOr<std::vector<std::string>> Find(const std::string& name);

 private:
  Resolver(std::vector<std::string> names, UniqueFd socket) : names_(std::move(names)), socket_(std::move(socket)) {}

  const std::vector<std::string> names_;
  std::mutex asking_;
  UniqueFd socket_;  // not open: there is no process. The process ends when it is closed
};

}  // namespace mooring
