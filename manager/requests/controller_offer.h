// An offer of a host: a plugin has a healthy controller there.
#pragma once

#include <optional>
#include <string>

#include "manager/plugins/plugin_directory.h"
#include "manager/state/state.h"

namespace mooring::manager {

struct ControllerOffer {
  std::string plugin, host;
  Fingerprint fingerprint;  // of the controller: healthy and complete; with the topology of the host's node service
};

std::string ToValue(const ControllerOffer& offer);

// None, with a warning in the log: it is not the value of an offer.
std::optional<ControllerOffer> ToOffer(const KeyValue& stored);

// The controller of another host in the status of a plugin: its provider is "host", and its id the host's name.
InstanceInfo InstanceOf(const ControllerOffer& offer);

}  // namespace mooring::manager
