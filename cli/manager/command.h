// The commands for the manager and their flags. A function returns the rows of each table, and area.cc runs them.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/command/command_table.h"
#include "cli/command/session.h"
#include "cli/flags/flags.h"
#include "cli/manager/arguments.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::migrate_command {

// Adds `mooring manager migrate` (migrate.cc). `manager`: the command `mooring manager`.
void Add(CLI::App& manager, Action& chosen);

}  // namespace mooring::cli::migrate_command

namespace mooring::cli::manager_area {

// A command lists the flags that it takes.
using Flag = FlagOf<Arguments>;
using Flags = FlagsOf<Arguments>;
using Shared = SharedFlags<Arguments>;

inline constexpr Flag kManager{"--manager",
                               "SOCKET",
                               "Socket of the manager (default: /run/mooring/manager.sock)",
                               &Arguments::socket,
                               "MOORING_MANAGER_SOCKET",
                               /*is_sent=*/false};
inline constexpr Flag kQuiet{"-q,--quiet", "", "Print only the names, one on each line", &Arguments::quiet};

inline constexpr Flag kPluginName{"NAME", "", "Name of the plugin", &Arguments::plugin};
inline constexpr Flag kPluginToRegister{"NAME", "", "Name of the plugin (default: the name that the plugin reports)",
                                        &Arguments::plugin};
inline constexpr Flag kPluginToShow{"NAME", "", "Name of the plugin to show in full", &Arguments::plugin};
inline constexpr Flag kWords{
    "WORD", "", "More words of the plugin's command line; put words that begin with '-' after --", &Arguments::words};
inline constexpr Flag kExec{"--exec", "COMMAND", "Program to run as the plugin, split into words as a shell does",
                            &Arguments::exec};
inline constexpr Flag kImage{"--image", "IMAGE", "Image to run as the plugin, in a privileged container",
                             &Arguments::image};
inline constexpr Flag kEnvironment{"--env", "KEY=VALUE", "Environment variable of the plugin; repeatable",
                                   &Arguments::environment};
inline constexpr Flag kEnvironmentFile{
    "--env-file", "FILE", "File of variables: lines of KEY=VALUE, or a JSON object", &Arguments::environment_file,
    "",           false};
inline constexpr Flag kEngine{"--engine", "SOCKET", "API socket of Docker or Podman (default: the manager's)",
                              &Arguments::engine};
inline constexpr Flag kBind{"--bind", "HOST:CONTAINER[:OPTIONS]",
                            "Host path to bind into the container; options are ro, rslave and rshared; repeatable",
                            &Arguments::binds};
inline constexpr Flag kEndpoint{"--endpoint", "ENDPOINT", "Socket of the plugin: unix:///path/csi.sock, or its path",
                                &Arguments::endpoint};
inline constexpr Flag kDeclaredBy{"--declared-by", "WHO", "Job, unit or person that needs the plugin (default: cli)",
                                  &Arguments::declared_by};
inline constexpr Flag kDeclaredByOne{"--declared-by", "WHO",
                                     "Job, unit or person that no longer needs the plugin (default: all)",
                                     &Arguments::declared_by};
inline constexpr Flag kStartTimeout{"--start-timeout", "SECONDS",
                                    "Time limit for the plugin to become ready (default: 300)",
                                    &Arguments::start_timeout};
inline constexpr Flag kNoWait{"--no-wait", "", "Return before the health of the plugin is known", &Arguments::no_wait};

inline constexpr Flag kNamespace{"-n,--namespace", "NAMESPACE", "Namespace of the volume (default: default)",
                                 &Arguments::ns};
inline constexpr Flag kAllNamespaces{"--all-namespaces", "", "List the volumes of every namespace",
                                     &Arguments::all_namespaces};
inline constexpr Flag kVolumeIdOrFile{"ID", "", "ID of the volume, unless --file contains it", &Arguments::id};
inline constexpr Flag kOfVolume{"ID", "", "List only those of this volume", &Arguments::id};
inline constexpr Flag kCopyId{"COPY", "", "ID of the new volume", &Arguments::copy};
inline constexpr Flag kFile{"--file",         "FILE", "Volume as JSON, - for stdin; flags override the file",
                            &Arguments::file, "",     false};
inline constexpr Flag kPlugin{"--plugin", "NAME", "Plugin of the volume", &Arguments::plugin};
inline constexpr Flag kOfPlugin{"--plugin", "NAME", "List only those of this plugin", &Arguments::plugin};
inline constexpr Flag kSnapshotPlugin{"--plugin", "NAME", "Plugin that has the snapshots", &Arguments::plugin};
inline constexpr Flag kName{"--name", "NAME",
                            "Name for the plugin to give the volume (default: made from the namespace and the ID)",
                            &Arguments::name};
inline constexpr Flag kExternalId{"--external-id", "ID", "ID that the plugin uses for the volume",
                                  &Arguments::external_id};
inline constexpr Flag kAccesses{"--access", "MODE",
                                "Access mode that the volume allows (default: single-node-writer); repeatable",
                                &Arguments::access};
inline constexpr Flag kAccess{"--access", "MODE", "Access mode (default: the first of the volume that fits)",
                              &Arguments::access};
inline constexpr Flag kFsType{"--fs-type", "TYPE", "Type of the filesystem", &Arguments::fs_type};
inline constexpr Flag kContext{"--context", "KEY=VALUE", "Entry of the volume context; repeatable",
                               &Arguments::context};
inline constexpr Flag kSnapshotName{"NAME", "", "Name of the snapshot (default: made from the ID and the time)",
                                    &Arguments::name};
inline constexpr Flag kSnapshotId{"SNAPSHOT", "", "ID of the snapshot", &Arguments::snapshot};

inline constexpr Flag kFor{"--for", "ALLOCATION", "Allocation that uses the volume: a task, a container or a unit",
                           &Arguments::allocation};
inline constexpr Flag kOfAllocation{"--for", "ALLOCATION", "List only those of this allocation",
                                    &Arguments::allocation};
inline constexpr Flag kAllocation{"ALLOCATION", "", "Task, container or unit", &Arguments::allocation};
inline constexpr Flag kRequest{"--request", "NAME",
                               "Name that the allocation has for the volume (default: the ID of the volume)",
                               &Arguments::request};
inline constexpr Flag kMode{"--mode", "MODE", "read or write (default: write; read with --read-only)",
                            &Arguments::mode};
inline constexpr Flag kClaimMode{"--mode", "MODE", "read or write", &Arguments::mode};
inline constexpr Flag kReleaseMode{"--mode", "MODE", "read or write (default: both)", &Arguments::mode};
inline constexpr Flag kExternalNode{"--external-node", "NODE",
                                    "ID that the plugin uses for the node (default: the ID that the plugin reported)",
                                    &Arguments::external_node};
inline constexpr Flag kForce{"--force", "", "Release without the node, if no allocation is alive", &Arguments::force};
inline constexpr Flag kPerAlloc{"--per-alloc", "INDEX", "Index of the task, which has a volume of its own: ID[INDEX]",
                                &Arguments::per_alloc};
inline constexpr Flag kTasks{"--tasks", "N", "Number of tasks that use this same volume (default: 1)",
                             &Arguments::tasks};
inline constexpr Flag kSystemJob{"--system-job", "", "Declare that every host runs one such task",
                                 &Arguments::system_job};
inline constexpr Flag kIfExists{"--if-exists", "", "Succeed if there is nothing to do, because it does not exist",
                                &Arguments::if_exists};
inline constexpr Flag kForget{"--forget", "", "Delete only the manager's record, and ask no plugin",
                              &Arguments::forget};
inline constexpr Flag kPath{"PATH", "", "Path at which the volume appears (default: only at the plugin's target path)",
                            &Arguments::path};
inline constexpr Flag kAttached{
    "PATH|NAME", "", "Path where the volume is attached; with --for, the allocation's name for it", &Arguments::path};
inline constexpr Flag kPropagation{"--propagation", "WORD",
                                   "private, rslave, rshared, or the word of Nomad or Kubernetes (default: private)",
                                   &Arguments::propagation};
inline constexpr Flag kReadOnly{"--read-only", "", "Attach the volume read-only", &Arguments::read_only};

inline constexpr Flag kHost{"HOST", "", "Name of the host", &Arguments::host};
inline constexpr Flag kOfHost{"--host", "HOST", "Only claims of this host", &Arguments::host};
inline constexpr Flag kVolumesOfHost{
    "--host", "HOST", "Only volumes that this host has claimed, or that no other host can reach", &Arguments::host};
inline constexpr Flag kEventsOfHost{"--host", "HOST", "Only events of this host (default: of all hosts)",
                                    &Arguments::host};
inline constexpr Flag kChangesOfHost{
    "--host", "HOST", "Only claims of this host, and volumes that it has claimed or that no other host can reach",
    &Arguments::host};
inline constexpr Flag kUndo{"--undo", "", "End the draining", &Arguments::undo};

inline constexpr Flag kFollow{"-f,--follow", "", "Print the events that happen from now on, until interrupted",
                              &Arguments::follow};
inline constexpr Flag kFrom{"--from", "NUMBER", "Number of the first event to print", &Arguments::from};

inline constexpr Flag kOnlyVolumes{"--volumes", "", "Print only changes of volumes", &Arguments::only_volumes};
inline constexpr Flag kOnlyClaims{"--claims", "", "Print only changes of claims", &Arguments::only_claims};
inline constexpr Flag kFromRevision{"--from", "REVISION", "First revision to print (default: the next)",
                                    &Arguments::from_revision};

inline const Flags kJobFlags{&kPerAlloc, &kTasks, &kSystemJob};

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
