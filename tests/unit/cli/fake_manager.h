// A manager for tests: it records every request and gives the answers of its script.
#ifndef MOORING_TESTS_UNIT_CLI_FAKE_MANAGER_H_
#define MOORING_TESTS_UNIT_CLI_FAKE_MANAGER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "tests/unit/cli/own_directory.h"
#include "tests/unit/cli/script.h"

namespace mooring::cli {

class FakeManager {
 public:
  enum class Start { kNow, kLater };
  explicit FakeManager(Start start = Start::kNow);
  ~FakeManager();
  FakeManager(const FakeManager&) = delete;
  FakeManager& operator=(const FakeManager&) = delete;

  void Serve();

  Script& script() { return script_; }
  const std::string& directory() const { return directory_.path(); }
  std::string socket() const { return directory() + "/manager.sock"; }

 private:
  Script script_;
  OwnDirectory directory_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_FAKE_MANAGER_H_
