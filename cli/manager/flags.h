// The flags of the commands for the manager. A command lists the ones it takes.
#ifndef MOORING_CLI_MANAGER_FLAGS_H_
#define MOORING_CLI_MANAGER_FLAGS_H_

#include "cli/flags/flags.h"
#include "cli/manager/arguments.h"

namespace mooring::cli::manager_area {

using Flag = FlagOf<Arguments>;
using Flags = FlagsOf<Arguments>;

inline constexpr Flag kManager{"--manager",
                               "SOCKET",
                               "the manager's socket (/run/mooring/manager.sock)",
                               &Arguments::socket,
                               "MOORING_MANAGER_SOCKET",
                               /*is_sent=*/false};
inline constexpr Flag kTimeout{"--timeout", "SECONDS", "how long it may take (60; 600 where data is made or copied)",
                               &Arguments::timeout, "MOORING_TIMEOUT"};
inline constexpr Flag kJson{"--json", "", "print the answer as JSON", &Arguments::json};
inline constexpr Flag kTime{"--time", "", "print to stderr how long each call took", &Arguments::show_time};
inline constexpr Flag kVerbose{"-v,--verbose", "", "print to stderr each request, without its secrets, and each step",
                               &Arguments::verbose};

inline constexpr Flag kQuiet{"-q,--quiet", "", "only their names, a line each", &Arguments::quiet};

inline constexpr Flag kPluginName{"NAME", "", "the plugin's name", &Arguments::plugin};
inline constexpr Flag kPluginToRegister{"NAME", "", "the plugin's name (what it says itself)", &Arguments::plugin};
inline constexpr Flag kPluginToShow{"NAME", "", "one plugin in full", &Arguments::plugin};
inline constexpr Flag kWords{"WORD", "", "more words of its command line; those that begin with '-' behind a --",
                             &Arguments::words};
inline constexpr Flag kExec{"--exec", "COMMAND", "run this program, its words split as a shell does", &Arguments::exec};
inline constexpr Flag kImage{"--image", "IMAGE", "run this image as a privileged container", &Arguments::image};
inline constexpr Flag kEnvironment{"--env", "KEY=VALUE", "a variable for it; may be given again",
                                   &Arguments::environment};
inline constexpr Flag kEnvironmentFile{
    "--env-file", "FILE", "variables: lines of KEY=VALUE, or a JSON object", &Arguments::environment_file, "", false};
inline constexpr Flag kEngine{"--engine", "SOCKET", "the API socket of Docker or Podman (the manager's)",
                              &Arguments::engine};
inline constexpr Flag kBind{"--bind", "HOST:CONTAINER[:OPTIONS]",
                            "a path of the host for the container: ro, rslave or rshared; may be given again",
                            &Arguments::binds};
inline constexpr Flag kEndpoint{"--endpoint", "ENDPOINT", "the plugin's socket: unix:///path/csi.sock, or its path",
                                &Arguments::endpoint};
inline constexpr Flag kDeclaredBy{"--declared-by", "WHO", "the job, unit or person it is for (cli)",
                                  &Arguments::declared_by};
inline constexpr Flag kDeclaredByOne{"--declared-by", "WHO", "only this one needs it no longer (all)",
                                     &Arguments::declared_by};
inline constexpr Flag kStartTimeout{"--start-timeout", "SECONDS", "how long it may take to be ready (300)",
                                    &Arguments::start_timeout};
inline constexpr Flag kNoWait{"--no-wait", "", "do not wait until the plugin's health is known", &Arguments::no_wait};

inline constexpr Flag kNamespace{"-n,--namespace", "NAMESPACE", "the volume's namespace (default)", &Arguments::ns};
inline constexpr Flag kAllNamespaces{"--all-namespaces", "", "those of every namespace", &Arguments::all_namespaces};
inline constexpr Flag kVolumeId{"ID", "", "the volume's id", &Arguments::id};
inline constexpr Flag kVolumeIdOrFile{"ID", "", "the volume's id, unless --file has it", &Arguments::id};
inline constexpr Flag kOfVolume{"ID", "", "those of this volume", &Arguments::id};
inline constexpr Flag kCopyId{"COPY", "", "the id of the new volume", &Arguments::copy};
inline constexpr Flag kFile{"--file",         "FILE", "the volume as JSON; flags override what it says; - is stdin",
                            &Arguments::file, "",     false};
inline constexpr Flag kPlugin{"--plugin", "NAME", "the plugin of the volume", &Arguments::plugin};
inline constexpr Flag kOfPlugin{"--plugin", "NAME", "those of this plugin", &Arguments::plugin};
inline constexpr Flag kName{"--name", "NAME", "what the plugin is to call it (made from namespace and id)",
                            &Arguments::name};
inline constexpr Flag kExternalId{"--external-id", "ID", "what the plugin calls it", &Arguments::external_id};
inline constexpr Flag kSize{"--size", "SIZE", "at least this size: 1GiB, 512MiB, 1G, or bytes", &Arguments::size};
inline constexpr Flag kLimit{"--limit", "SIZE", "at most this size", &Arguments::limit};
inline constexpr Flag kAccesses{"--access", "MODE",
                                "an access mode it may be used in (single-node-writer); may be given again",
                                &Arguments::access};
inline constexpr Flag kAccess{"--access", "MODE", "the access mode (the volume's first that allows it)",
                              &Arguments::access};
inline constexpr Flag kBlock{"--block", "", "a raw block device, not a filesystem", &Arguments::block};
inline constexpr Flag kFsType{"--fs-type", "TYPE", "the filesystem", &Arguments::fs_type};
inline constexpr Flag kMountFlag{"--mount-flag", "FLAG", "a mount option; may be given again", &Arguments::mount_flags};
inline constexpr Flag kParam{"--param", "KEY=VALUE", "a parameter for the plugin; may be given again",
                             &Arguments::parameters};
inline constexpr Flag kContext{"--context", "KEY=VALUE", "of the volume's context; may be given again",
                               &Arguments::context};
inline constexpr Flag kTopology{"--topology", "KEY=VALUE[,...]", "a place it must be reachable from; again for another",
                                &Arguments::topologies};
inline constexpr Flag kPreferredTopology{"--preferred-topology", "KEY=VALUE[,...]",
                                         "a place it should be reachable from, the best first",
                                         &Arguments::preferred_topologies};
inline constexpr Flag kSecret{"--secret", "KEY=VALUE",
                              "a secret; visible to every user in the process list, so prefer --secrets-file",
                              &Arguments::secrets};
inline constexpr Flag kSecretsFile{
    "--secrets-file",       "FILE",           "secrets: lines of KEY=VALUE, or a JSON object", &Arguments::secrets_file,
    "MOORING_SECRETS_FILE", /*is_sent=*/false};
inline constexpr Flag kFromSnapshot{"--from-snapshot", "ID", "fill it with this snapshot", &Arguments::from_snapshot};
inline constexpr Flag kFromVolume{"--from-volume", "ID", "fill it with a copy of this volume", &Arguments::from_volume};
inline constexpr Flag kSnapshotName{"NAME", "", "the snapshot's name (made from id and time)", &Arguments::name};
inline constexpr Flag kSnapshotId{"SNAPSHOT", "", "the snapshot's id", &Arguments::snapshot};

inline constexpr Flag kFor{"--for", "ALLOCATION", "who uses it: a task, a container, a unit", &Arguments::allocation};
inline constexpr Flag kOfAllocation{"--for", "ALLOCATION", "those of this allocation", &Arguments::allocation};
inline constexpr Flag kAllocation{"ALLOCATION", "", "the task, container or unit", &Arguments::allocation};
inline constexpr Flag kRequest{"--request", "NAME", "the allocation's own name for the volume (the volume's id)",
                               &Arguments::request};
inline constexpr Flag kMode{"--mode", "MODE", "read or write (write; read with --read-only)", &Arguments::mode};
inline constexpr Flag kClaimMode{"--mode", "MODE", "read or write", &Arguments::mode};
inline constexpr Flag kReleaseMode{"--mode", "MODE", "read or write (both)", &Arguments::mode};
inline constexpr Flag kExternalNode{"--external-node", "NODE", "what the plugin calls the node (what it said)",
                                    &Arguments::external_node};
inline constexpr Flag kForce{"--force", "", "without the node, where no allocation is alive", &Arguments::force};
inline constexpr Flag kPerAlloc{"--per-alloc", "INDEX", "the volume of this one task: ID[INDEX]",
                                &Arguments::per_alloc};
inline constexpr Flag kTasks{"--tasks", "N", "how many tasks ask for this same volume (1)", &Arguments::tasks};
inline constexpr Flag kSystemJob{"--system-job", "", "it is for one task on every host", &Arguments::system_job};
inline constexpr Flag kPath{"PATH", "", "where it is to be seen (nowhere but where the plugin puts it)",
                            &Arguments::path};
inline constexpr Flag kAttached{"PATH|NAME", "", "where it is attached; with --for: the allocation's name for it",
                                &Arguments::path};
inline constexpr Flag kPropagation{"--propagation", "WORD",
                                   "private, rslave or rshared, or Nomad's or Kubernetes' word (private)",
                                   &Arguments::propagation};
inline constexpr Flag kReadOnly{"--read-only", "", "nobody writes through it", &Arguments::read_only};

inline constexpr Flag kFollow{"-f,--follow", "", "those that happen from now on, until you stop it",
                              &Arguments::follow};
inline constexpr Flag kFrom{"--from", "NUMBER", "from this one on", &Arguments::from};

inline constexpr Flag kOnlyVolumes{"--volumes", "", "only those of volumes", &Arguments::only_volumes};
inline constexpr Flag kOnlyClaims{"--claims", "", "only those of claims", &Arguments::only_claims};
inline constexpr Flag kFromRevision{"--from", "REVISION", "from this revision on (from now on)",
                                    &Arguments::from_revision};

inline const Flags kEveryCommand{&kManager, &kTimeout, &kJson, &kTime, &kVerbose};
inline const Flags kSecretFlags{&kSecretsFile, &kSecret};
inline const Flags kJobFlags{&kPerAlloc, &kTasks, &kSystemJob};

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_FLAGS_H_
