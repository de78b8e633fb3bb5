// Docker's and Podman's volume plugin protocol (VolumeDriver.*), over the same volumes, claims and attachments. Without
// HTTP: requests and answers as JSON texts, so that it can be tested so. http_server.h serves it.
//
//   docker volume create -d mooring -o size=1GiB db   a volume of namespace "docker", created through its CSI plugin
//   docker run -v db:/data …                          an attachment of allocation "docker-<id that Docker gives the
//                                                     mount>" at <state>/docker/<volume>/<id>, which Docker binds
//
// Docker mounts again under the same id when its daemon was restarted, and Podman knows one id alone: what is attached
// for it already stays as it is. A container's volume is a slave of the place it was bound from, so whatever is mounted
// below that place would come in: it is private unless the volume was made with another propagation.
#ifndef MOORING_MANAGER_DOCKER_VOLUME_DRIVER_H_
#define MOORING_MANAGER_DOCKER_VOLUME_DRIVER_H_

#include <string>

#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

struct Parts;  // manager.h

class DockerVolumeDriver {
 public:
  // `default_plugin` empty: the only plugin there is. `parts` outlives it, and so does `recorder`, which is told of
  // every request; null: nobody is.
  DockerVolumeDriver(Parts& parts, std::string default_plugin, CallRecorder* recorder = nullptr);

  // `method`: "/VolumeDriver.Mount"; gives the body of the answer, an error in its "Err". Safe from several threads.
  std::string Handle(const std::string& method, const std::string& body, Clock::time_point until);

 private:
  Parts& parts_;
  const std::string default_plugin_;
  CallRecorder* const recorder_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_DOCKER_VOLUME_DRIVER_H_
