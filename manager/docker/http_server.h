// Serves the volume driver to Docker: HTTP on a unix socket of root, /run/docker/plugins/mooring.sock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "http/server.h"
#include "manager/csi/csi_channel.h"
#include "manager/records/records.h"

namespace mooring::manager {

struct DockerCall {
  Clock::time_point until;             // when its work ends
  IsAbandoned is_abandoned = nullptr;  // Docker has given up, or has ended
  std::string caller = {};             // the process, which differs after a restart of Docker; empty: not known
  std::function<bool(const AttachmentRecord&)> has_older_user = nullptr;  // AttachRequest::has_older_user
};

class DockerHttpServer {
 public:
  // DockerVolumeDriver::Handle: takes method and body, and returns the body of the answer. Called from many threads.
  using Handler = std::function<std::string(const std::string&, const std::string&, const DockerCall&)>;

  // Binds the socket with mode 0600, replaces one that no process serves, and makes its directory if it is missing.
  // FAILED_PRECONDITION: another process serves the socket.
  static absl::StatusOr<std::unique_ptr<DockerHttpServer>> Start(Handler handler, const std::string& socket);

  // Refuses new requests and waits until `until` for the running ones. DEADLINE_EXCEEDED: some still run. The file of
  // the socket stays: Docker retries a refused connection until a manager serves it again.
  absl::Status Stop(Clock::time_point until);

 private:
  explicit DockerHttpServer(std::unique_ptr<http::Server> server) : server_(std::move(server)) {}
  std::unique_ptr<http::Server> server_;  // its destructor waits for the running requests
};

}  // namespace mooring::manager
