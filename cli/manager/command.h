// The commands for the manager: one function returns the rows of each table. area.cc runs them.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/command/command_table.h"
#include "cli/command/session.h"
#include "cli/manager/arguments.h"
#include "cli/manager/flags.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::manager_area {

namespace v1 = ::mooring::manager::v1;
using v1::Manager;

struct Session : SessionOf<Arguments> {
  // Prints `answer` as JSON, with the values of its mount flags redacted, or `text`.
  absl::Status Show(const google::protobuf::Message& answer, std::string_view text) const;
};

inline constexpr Duration kCreateTimeout = std::chrono::minutes(10);  // of a call that creates or copies data
inline constexpr Duration kStartMargin = std::chrono::seconds(10);    // in which the manager reports a start's timeout
inline constexpr Duration kDefaultStartTimeout = std::chrono::seconds(300) + kStartMargin;

using Command = CommandOf<Arguments, absl::Status (*)(Session& session)>;
using Commands = std::vector<Command>;

Commands PluginCommands();      // plugins.cc
Commands VolumeCommands();      // volumes.cc
Commands SnapshotCommands();    // snapshots.cc
Commands ClaimCommands();       // claims.cc
Commands AttachmentCommands();  // attachments.cc
Commands HostCommands();        // hosts.cc
Commands EventCommands();       // events.cc

}  // namespace mooring::cli::manager_area
