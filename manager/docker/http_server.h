// Docker's volume plugin as Docker finds it: HTTP on a unix socket of root's own, /run/docker/plugins/mooring.sock.
#ifndef MOORING_MANAGER_DOCKER_HTTP_SERVER_H_
#define MOORING_MANAGER_DOCKER_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

class DockerHttpServer {
 public:
  // DockerVolumeDriver::Handle: method, body and deadline; gives the answer's body. From many threads.
  using Handler = std::function<std::string(const std::string&, const std::string&, Clock::time_point)>;

  // Makes the socket (0600, its directory where that is missing) in the place of one that nobody serves any more, and
  // serves it by `handler`. FAILED_PRECONDITION: somebody serves it already.
  static absl::StatusOr<std::unique_ptr<DockerHttpServer>> Start(Handler handler, const std::string& socket);
  ~DockerHttpServer();  // Stop, and waits for the calls under way

  // Takes no new calls. Those under way go on until `until`; DEADLINE_EXCEEDED: some still do. The socket stays, and
  // Docker, which finds it refused, tries again until a manager serves it once more.
  absl::Status Stop(Clock::time_point until);

 private:
  struct Serving;
  explicit DockerHttpServer(std::unique_ptr<Serving> serving);
  std::unique_ptr<Serving> serving_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_DOCKER_HTTP_SERVER_H_
