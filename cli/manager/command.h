// A command for the manager: a line in a table. What it takes, what it does; parsing, files, the connection, errors and
// exit statuses are around all of them (area.cc).
#ifndef MOORING_CLI_MANAGER_COMMAND_H_
#define MOORING_CLI_MANAGER_COMMAND_H_

#include <chrono>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/client.h"
#include "cli/manager/arguments.h"
#include "cli/manager/flags.h"
#include "cli/output/output.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::manager_area {

namespace v1 = ::mooring::manager::v1;
using v1::Manager;

// One command under way.
struct Session {
  const Arguments& arguments;
  const Client& client;
  Output& output;
  int exit_status = 0;  // for a command whose answer may be no

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Manager, Request, Response> method, const Request& request) const {
    return client.Call<Manager>(method, request);
  }

  // `answer` as JSON, without what is behind the '=' of its mount flags, or `text`.
  absl::Status Show(const google::protobuf::Message& answer, std::string_view text) const;
};

inline constexpr Duration kQuick = std::chrono::seconds(60);
inline constexpr Duration kMakesData = std::chrono::minutes(10);
inline constexpr Duration kMargin = std::chrono::seconds(10);  // for the manager to say that a start took too long
inline constexpr Duration kStart = std::chrono::seconds(300) + kMargin;

struct Command {
  const char* name;
  const char* help;
  Flags required;  // positional arguments first
  Flags optional;
  absl::Status (*run)(Session& session);
  const char* footer = "";
  Duration timeout = kQuick;
};

using Commands = std::vector<Command>;

Commands PluginCommands();      // plugins.cc
Commands VolumeCommands();      // volumes.cc
Commands LookCommands();        // look.cc: volume list and status
Commands SnapshotCommands();    // snapshots.cc
Commands ClaimCommands();       // claims.cc
Commands AttachmentCommands();  // attachments.cc
Commands EventCommands();       // events.cc
Commands WatchCommands();       // watch.cc

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_COMMAND_H_
