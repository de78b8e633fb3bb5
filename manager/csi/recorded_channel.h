// A way to a plugin whose calls are counted.
#ifndef MOORING_MANAGER_CSI_RECORDED_CHANNEL_H_
#define MOORING_MANAGER_CSI_RECORDED_CHANNEL_H_

#include <functional>
#include <string>

#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

// As `connect`, and tells the recorder of the plugin of every call. What `recorder_of` gives outlives the channels.
CsiConnector Recorded(CsiConnector connect, std::function<CallRecorder&(const std::string& plugin)> recorder_of);

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_CSI_RECORDED_CHANNEL_H_
