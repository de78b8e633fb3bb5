// The flags of `mooring csi`. A command lists the ones it takes.
#ifndef MOORING_CLI_CSI_FLAGS_H_
#define MOORING_CLI_CSI_FLAGS_H_

#include "cli/csi/arguments.h"
#include "cli/flags/flags.h"

namespace mooring::cli::csi_area {

using Flag = FlagOf<Arguments>;
using Flags = FlagsOf<Arguments>;

inline constexpr Flag kEndpoint{
    "--endpoint",         "ENDPOINT",     "the driver's socket: unix:///path/csi.sock, or its path",
    &Arguments::endpoint, "CSI_ENDPOINT", /*is_sent=*/false};
inline constexpr Flag kTimeout{"--timeout", "SECONDS", "how long a call may take (60)", &Arguments::timeout,
                               "MOORING_TIMEOUT"};
inline constexpr Flag kJson{"--json", "", "print the answer as JSON", &Arguments::json};
inline constexpr Flag kTime{"--time", "", "print to stderr how long each call took", &Arguments::show_time};
inline constexpr Flag kVerbose{"-v,--verbose", "", "print to stderr each request, without its secrets",
                               &Arguments::verbose};

inline constexpr Flag kVolumeId{"ID", "", "the volume's id", &Arguments::id};
inline constexpr Flag kSnapshotId{"ID", "", "the snapshot's id", &Arguments::id};
inline constexpr Flag kGroupSnapshotId{"ID", "", "the group snapshot's id", &Arguments::id};
inline constexpr Flag kBaseId{"BASE", "", "the id of the older snapshot", &Arguments::id};
inline constexpr Flag kTargetId{"TARGET", "", "the id of the newer one", &Arguments::target};
inline constexpr Flag kName{"NAME", "", "its name; the same name again gives the same one", &Arguments::name};
inline constexpr Flag kNode{"--node", "NODE", "the node's id, as node-info gives it", &Arguments::node};

inline constexpr Flag kStagingPath{"--staging-path", "PATH", "where the volume is staged, as the driver sees it",
                                   &Arguments::staging_path};
inline constexpr Flag kTargetPath{"--target-path", "PATH", "where the volume is published, as the driver sees it",
                                  &Arguments::target_path};
inline constexpr Flag kVolumePath{"--path", "PATH", "where the volume is published or staged", &Arguments::volume_path};
inline constexpr Flag kReadOnly{"--read-only", "", "publish it read-only", &Arguments::read_only};

inline constexpr Flag kSize{"--size", "SIZE", "at least this size: 1GiB, 512MiB, 1G, or bytes", &Arguments::size};
inline constexpr Flag kLimit{"--limit", "SIZE", "at most this size", &Arguments::limit};

inline constexpr Flag kAccess{"--access", "MODE", "the access mode (single-node-writer)", &Arguments::access};
inline constexpr Flag kBlock{"--block", "", "a raw block device, not a filesystem", &Arguments::block};
inline constexpr Flag kFsType{"--fs-type", "TYPE", "the filesystem (the driver's choice)", &Arguments::fs_type};
inline constexpr Flag kMountFlag{"--mount-flag", "FLAG", "a mount option; may be given again", &Arguments::mount_flags};
inline constexpr Flag kMountGroup{"--mount-group", "GID", "the group that owns the volume's files",
                                  &Arguments::mount_group};

inline constexpr Flag kParam{"--param", "KEY=VALUE", "a parameter; may be given again", &Arguments::parameters};
inline constexpr Flag kMutableParam{"--mutable-param", "KEY=VALUE", "a parameter that may change later; again for more",
                                    &Arguments::mutable_parameters};
inline constexpr Flag kVolumeContext{"--volume-context", "KEY=VALUE", "of what create printed; may be given again",
                                     &Arguments::volume_context};
inline constexpr Flag kPublishContext{"--publish-context", "KEY=VALUE",
                                      "of what controller-publish printed; may be given again",
                                      &Arguments::publish_context};
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
inline constexpr Flag kOneVolume{"--volume", "ID", "the volume", &Arguments::from_volume};
inline constexpr Flag kOneSnapshot{"--snapshot", "ID", "the snapshot", &Arguments::from_snapshot};
inline constexpr Flag kVolumes{"--volume", "ID", "a volume of the group; again for each", &Arguments::volumes};
inline constexpr Flag kSnapshots{"--snapshot", "ID", "a snapshot of the group; again for each", &Arguments::snapshots};

inline constexpr Flag kMaxEntries{"--max-entries", "N", "one page of at most N entries (all pages)",
                                  &Arguments::max_entries};
inline constexpr Flag kToken{"--token", "TOKEN", "begin where an earlier page ended", &Arguments::token};
inline constexpr Flag kOffset{"--offset", "SIZE", "leave out what lies before this byte", &Arguments::offset};
inline constexpr Flag kMaxResults{"--max-results", "N", "at most N ranges in one message (the driver's choice)",
                                  &Arguments::max_entries};
inline constexpr Flag kWait{"--wait", "SECONDS", "ask again until it is ready; the socket may be missing so far",
                            &Arguments::wait};
inline constexpr Flag kLiveness{"--liveness", "", "exit status 0 if the driver answers at all, whatever it says",
                                &Arguments::liveness};

inline const Flags kCapabilityFlags{&kAccess, &kBlock, &kFsType, &kMountFlag, &kMountGroup};
inline const Flags kSecretFlags{&kSecretsFile, &kSecret};

}  // namespace mooring::cli::csi_area

#endif  // MOORING_CLI_CSI_FLAGS_H_
