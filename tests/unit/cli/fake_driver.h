// A CSI driver for tests: it records every request and gives the answers of its script.
#ifndef MOORING_TESTS_UNIT_CLI_FAKE_DRIVER_H_
#define MOORING_TESTS_UNIT_CLI_FAKE_DRIVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "csi.grpc.pb.h"
#include "tests/unit/cli/own_directory.h"
#include "tests/unit/cli/script.h"

namespace mooring::cli {

// Serves identity, controller, group controller, snapshot metadata and node on a socket in a directory of its own,
// which is removed with it.
class FakeDriver {
 public:
  enum class Start { kNow, kLater };
  explicit FakeDriver(Start start = Start::kNow);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  void Serve();
  void Stop();  // the socket goes, as with a driver that ends well

  Script& script() { return script_; }
  const std::string& directory() const { return directory_.path(); }
  std::string socket() const { return directory() + "/csi.sock"; }
  std::string endpoint() const { return "unix://" + socket(); }

 private:
  Script script_;
  OwnDirectory directory_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_FAKE_DRIVER_H_
