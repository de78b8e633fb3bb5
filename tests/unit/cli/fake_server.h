// A CSI driver or a manager for tests. It records every request and gives the answers of its script.
#ifndef MOORING_TESTS_UNIT_CLI_FAKE_SERVER_H_
#define MOORING_TESTS_UNIT_CLI_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/cli/script.h"

namespace mooring::cli {

// Serves all methods of the protocols that the program is linked with, on a socket in a directory of its own.
class FakeServer {
 public:
  enum class Start { kNow, kLater };
  explicit FakeServer(Start start = Start::kNow);
  ~FakeServer() { Stop(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  void Serve();
  void Stop();  // removes the socket, like a server that ends well

  Script& script() { return script_; }
  const std::string& directory() const { return directory_.path(); }
  std::string socket() const { return directory() + "/server.sock"; }
  std::string endpoint() const { return "unix://" + socket(); }

 private:
  Script script_;
  mooring::testing::TempDir directory_;
  std::unique_ptr<grpc::CallbackGenericService> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_FAKE_SERVER_H_
