// Calls to the node service of a plugin, about a volume.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file/path.h"
#include "base/status.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/controller_call.h"
#include "manager/plugins/plugin_directory.h"

namespace mooring::manager {

// Gives a path of the host as the instance sees it.
inline std::string PathFor(const InstanceInfo& instance, const std::string& path) {
  if (instance.mount_point.empty() || instance.container_mount_point.empty()) return path;
  if (!IsBelow(path, instance.mount_point)) return path;
  return instance.container_mount_point + path.substr(instance.mount_point.size());
}

class NodeCaller {
 public:
  NodeCaller(PluginDirectory& plugins, const RetryPolicy& retry) : plugins_(plugins), retry_(retry) {}

  // Calls the node service, with the tries of Retry. Each try takes the newest instance, so a try after a replacement
  // goes to the new one. RESOURCE_EXHAUSTED is tried again, because a lack of memory, devices or threads on a node may
  // pass. If it does not pass, the caller gets it and marks the volume as exhausted. `make` gives the request for an
  // instance, with the paths that this instance sees.
  template <typename Request, typename Make>
  absl::StatusOr<typename CsiCall<Request>::Response> Call(const std::string& plugin, const Make& make,
                                                           Clock::time_point until) {
    typename CsiCall<Request>::Response response;
    MOORING_RETURN_IF_ERROR(Retry(retry_, until, [&](Clock::time_point try_until) -> absl::Status {
      MOORING_ASSIGN_OR_RETURN(const ReadyPlugin node, plugins_.WaitForNode(plugin, try_until));
      const Request request = make(node);
      return AnnotateCall(plugin, CsiCall<Request>::kName,
                          node.channel->Call(CsiCall<Request>::kMethod, request, response, try_until));
    }));
    return response;
  }

 private:
  PluginDirectory& plugins_;
  const RetryPolicy retry_;
};

}  // namespace mooring::manager
