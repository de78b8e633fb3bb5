// Placeholders in a plugin's command line and environment, because each driver has its own flag for its socket.
//
//   {endpoint}   unix:///run/mooring/plugins/NAME-5f3a0c11/csi.sock, as in CSI_ENDPOINT
//   {socket}     the same without unix://
//   {node}       the name of this host in the manager's records
//
// Other text in braces stays as it is, so that an argument may be JSON. Double braces are an escape: "{{node}}" becomes
// "{node}".
#pragma once

#include <string>

#include "manager/records/records.h"

namespace mooring::manager {

struct PlaceholderValues {
  std::string socket;
  std::string node;
};

std::string EndpointOf(const std::string& socket);  // "unix://" and the path

// Fills in all arguments of the command and all values of the environment.
PluginRecord::Run FillPlaceholders(PluginRecord::Run run, const PlaceholderValues& values);

}  // namespace mooring::manager
