// The commands of `mooring csi`, and their arguments and flags. A function returns the rows of each table, and
// area.cc runs them.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/command/command_table.h"
#include "cli/command/session.h"
#include "cli/flags/flags.h"
#include "csi.grpc.pb.h"

namespace mooring::cli::csi_area {

// A command lists the flags that it takes, and reads the members that they fill.
struct Arguments : SharedArguments {
  std::string target;  // the ID of the newer of two snapshots
  std::string node;
  std::string staging_path;
  std::string target_path;
  std::string volume_path;
  Offset offset;
  std::string mount_group;
  KeyValues mutable_parameters;
  KeyValues volume_context;
  KeyValues publish_context;
  std::vector<std::string> volumes;
  std::vector<std::string> snapshots;
  std::int32_t max_entries = 0;
  std::string token;
  std::optional<Duration> wait;
  bool liveness = false;
};

using Flag = FlagOf<Arguments>;
using Flags = FlagsOf<Arguments>;
using Shared = SharedFlags<Arguments>;

inline constexpr Flag kEndpoint{
    "--endpoint",       "ENDPOINT",     "Socket of the driver: unix:///path/csi.sock, or its path",
    &Arguments::socket, "CSI_ENDPOINT", /*is_sent=*/false};

inline constexpr Flag kSnapshotId{"ID", "", "ID of the snapshot", &Arguments::id};
inline constexpr Flag kGroupSnapshotId{"ID", "", "ID of the group snapshot", &Arguments::id};
inline constexpr Flag kBaseId{"BASE", "", "ID of the older snapshot", &Arguments::id};
inline constexpr Flag kTargetId{"TARGET", "", "ID of the newer snapshot", &Arguments::target};
inline constexpr Flag kName{"NAME", "", "Name of the new object; the same name again returns the same object",
                            &Arguments::name};
inline constexpr Flag kNode{"--node", "NODE", "ID of the node, as node-info prints it", &Arguments::node};
inline constexpr Flag kStagingPath{"--staging-path", "PATH", "Staging path of the volume, as the driver sees it",
                                   &Arguments::staging_path};
inline constexpr Flag kTargetPath{"--target-path", "PATH", "Target path of the volume, as the driver sees it",
                                  &Arguments::target_path};
inline constexpr Flag kVolumePath{"--path", "PATH", "Path where the volume is published or staged",
                                  &Arguments::volume_path};
inline constexpr Flag kReadOnly{"--read-only", "", "Publish the volume read-only", &Arguments::read_only};
inline constexpr Flag kAccess{"--access", "MODE", "Access mode (default: single-node-writer)", &Arguments::access};
inline constexpr Flag kFsType{"--fs-type", "TYPE", "Type of the filesystem (default: the driver chooses)",
                              &Arguments::fs_type};
inline constexpr Flag kMountGroup{"--mount-group", "GID", "Group that owns the files of the volume",
                                  &Arguments::mount_group};
inline constexpr Flag kMutableParam{"--mutable-param", "KEY=VALUE", "Parameter that can change later; repeatable",
                                    &Arguments::mutable_parameters};
inline constexpr Flag kVolumeContext{"--volume-context", "KEY=VALUE",
                                     "Entry of the context that create printed; repeatable",
                                     &Arguments::volume_context};
inline constexpr Flag kPublishContext{"--publish-context", "KEY=VALUE",
                                      "Entry of the context that controller-publish printed; repeatable",
                                      &Arguments::publish_context};
inline constexpr Flag kOneVolume{"--volume", "ID", "ID of the volume", &Arguments::from_volume};
inline constexpr Flag kOneSnapshot{"--snapshot", "ID", "ID of the snapshot", &Arguments::id};
inline constexpr Flag kVolumes{"--volume", "ID", "Volume of the group; repeat for each", &Arguments::volumes};
inline constexpr Flag kSnapshots{"--snapshot", "ID", "Snapshot of the group; repeat for each", &Arguments::snapshots};
inline constexpr Flag kMaxEntries{"--max-entries", "N", "Print one page of at most N entries (default: all pages)",
                                  &Arguments::max_entries};
inline constexpr Flag kToken{"--token", "TOKEN", "Token at which an earlier page ended", &Arguments::token};
inline constexpr Flag kOffset{"--offset", "OFFSET", "First byte to report", &Arguments::offset};
inline constexpr Flag kMaxResults{"--max-results", "N",
                                  "Maximum number of ranges in one message (default: the driver chooses)",
                                  &Arguments::max_entries};
inline constexpr Flag kWait{"--wait", "SECONDS", "Time to wait until the driver is ready; its socket may not exist yet",
                            &Arguments::wait};
inline constexpr Flag kLiveness{"--liveness", "", "Exit with 0 if the driver answers at all, even with an error",
                                &Arguments::liveness};

inline const Flags kCapabilityFlags{&kAccess, &Shared::kBlock, &kFsType, &Shared::kMountFlag, &kMountGroup};

// Sets each field of `request` that a flag fills. Without flags for a capability, a request that must have one gets a
// filesystem that the driver chooses, in mode SINGLE_NODE_WRITER. INVALID_ARGUMENT: contradictory flags, or an unknown
// access mode.
absl::Status FillRequest(const Arguments& arguments, google::protobuf::Message& request);

struct Session : SessionOf<Arguments> {
  // Fills the rest of `request` from the flags, and sends it.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Send(Method<Stub, Request, Response> method, Request request = {}) const {
    MOORING_RETURN_IF_ERROR(FillRequest(arguments, request));
    return client.Call(method, request);
  }
};
using Command = CommandOf<Arguments, absl::Status (*)(Session& session)>;
using Commands = std::vector<Command>;

Commands IdentityCommands();       // identity.cc
Commands ControllerCommands();     // controller.cc
Commands NodeCommands();           // node.cc
Commands SnapshotCommands();       // snapshots.cc
Commands GroupSnapshotCommands();  // snapshots.cc
Commands MetadataCommands();       // snapshots.cc

// Fetches all pages from the one that the flags name to the last, and merges them into one response. If a flag limits
// the entries, fetches one page and keeps its next_token. INTERNAL: the driver repeats a token, so the list would never
// end.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> FetchPages(const Session& session, Method<Stub, Request, Response> method) {
  Request request;
  MOORING_RETURN_IF_ERROR(FillRequest(session.arguments, request));
  Response all;
  std::set<std::string> seen{request.starting_token()};
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const Response page, session.Call(method, request));
    all.clear_next_token();
    all.MergeFrom(page);
    if (page.next_token().empty() || request.max_entries() > 0) return all;
    if (!seen.insert(page.next_token()).second) return Internal("the driver gave the same next_token twice");
    request.set_starting_token(page.next_token());
  }
}

// The line below a page that is not the last.
inline std::string NextPageHint(const std::string& next_token) {
  return next_token.empty() ? "" : "more with --token " + Visible(next_token) + "\n";
}

}  // namespace mooring::cli::csi_area
