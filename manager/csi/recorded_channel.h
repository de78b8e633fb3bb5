// Channels whose calls are recorded for the metrics.
#pragma once

#include <functional>
#include <string>

#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

// Like `connect`, but passes every call to the recorder of the plugin. The recorders outlive the channels.
CsiConnector Recorded(CsiConnector connect, std::function<CallRecorder&(const std::string& plugin)> recorder_of);

}  // namespace mooring::manager
