// The volume plugin protocol of Docker and Podman (VolumeDriver.*), on the manager's volumes, claims and attachments.
// Requests and answers are JSON texts; http_server.h carries them over HTTP.
//
//   docker volume create -d mooring -o size=1GiB db   creates a volume in the namespace "docker" through its CSI plugin
//   docker run -v db:/data …                          attaches it for the allocation "docker-<mount id of Docker>" at
//                                                     <state>/docker/<volume>/<id>, which Docker binds
//
// `docker cp` mounts a volume of a running container again with the same id, and then unmounts it. So the mounts of one
// process are counted, and the last unmount detaches. A daemon that has restarted knows its containers, but not what it
// has mounted for them. For one that outlived it (live-restore), a copy forgets the id of the mount, and the volume
// stays attached after the container, until `mooring detach`. After a kill without live-restore, it mounts with the id
// of before for the next start of the container (mount_users.h tells the two apart). Podman uses one id for all mounts,
// counts itself, and each of its commands is another process. Where the process is not seen (a manager in a PID
// namespace of its own), a repeated mount changes nothing.
//
// A container's volume receives mounts below the path that it was bound from. So the path is private, unless the volume
// has another propagation.
//
// Docker unmounts only what it was told is mounted. So no request but an unmount begins once its caller has gone away,
// and a mount that is under way then is undone. An unmount is always done, because the container or the copy has
// ended.
#pragma once

#include <string>

#include "manager/attach/attachments.h"
#include "manager/docker/http_server.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/state/records_store.h"
#include "manager/state/state.h"
#include "manager/volumes/attachment_journal.h"
#include "manager/volumes/volumes.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

class DockerVolumeDriver {
 public:
  // All outlive the driver.
  struct Collaborators {
    PluginDirectory& plugins;
    Volumes& volumes;
    Attachments& attachments;
    const AttachmentJournal& journal;
    RecordsStore& store;
    State& state;
  };
  struct Settings {
    std::string host;
    std::string state_dir;
    std::string boot;                  // boot id of the running kernel
    std::string default_plugin = {};   // empty: the only plugin of the host
    CallRecorder* recorder = nullptr;  // counts every request, and outlives the driver; null: not counted
  };

  DockerVolumeDriver(const Collaborators& with, Settings settings);

  // `method` is for example "/VolumeDriver.Mount". Returns the body of the answer, with an error in its "Err". Safe
  // from several threads.
  std::string Handle(const std::string& method, const std::string& body, const DockerCall& call);

 private:
  const Collaborators with_;
  const Settings settings_;
};

}  // namespace mooring::manager
