// Commands that talk to a server over its socket: `mooring csi …`, and the commands for the manager. This file has the
// arguments and flags of both areas, and runs such a command.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "cli/client/client.h"
#include "cli/flags/flags.h"
#include "cli/output/output.h"
#include "cli/output/report.h"

namespace mooring::cli {

// An area derives its Arguments from this. Each member is filled by one flag.
struct SharedArguments {
  std::string socket;
  std::optional<Duration> timeout;  // absent: the timeout of the command
  bool json = false;
  bool show_time = false;
  bool verbose = false;

  std::string id;    // of a volume, a snapshot or a group snapshot, as the command says
  std::string name;  // of the object that is created
  bool read_only = false;
  std::optional<Bytes> size;
  std::optional<Bytes> limit;

  // The volume capability.
  std::vector<std::string> access;
  bool block = false;
  std::string fs_type;
  std::vector<std::string> mount_flags;

  KeyValues parameters;
  std::vector<KeyValues> topologies;
  std::vector<KeyValues> preferred_topologies;
  Secrets secrets;
  std::string secrets_file;
  std::string from_snapshot;
  std::string from_volume;
};

// The flags that mean the same in both areas.
template <typename Arguments>
struct SharedFlags {
  using Flag = FlagOf<Arguments>;

  static constexpr Flag kTimeout{
      "--timeout", "SECONDS",
      "Time limit of the command, or of each CSI call (default: 60, longer where data is copied)", &Arguments::timeout,
      "MOORING_TIMEOUT"};
  static constexpr Flag kVerbose{"-v,--verbose", "",
                                 "Print to stderr each request, without its secrets, and what is done for it",
                                 &Arguments::verbose};
  static constexpr Flag kJson{"--json", "", "Print the answer as JSON", &Arguments::json};
  static constexpr Flag kTime{"--time", "", "Print to stderr how long each call took", &Arguments::show_time};
  static constexpr Flag kVolumeId{"ID", "", "ID of the volume", &Arguments::id};
  static constexpr Flag kSize{"--size", "SIZE", "Minimum size of the volume: 512MiB, 10GiB, 10G", &Arguments::size};
  static constexpr Flag kLimit{"--limit", "SIZE", "Maximum size of the volume", &Arguments::limit};
  static constexpr Flag kBlock{"--block", "", "Use a raw block device instead of a filesystem", &Arguments::block};
  static constexpr Flag kMountFlag{"--mount-flag", "FLAG", "Mount option; repeatable", &Arguments::mount_flags};
  static constexpr Flag kParam{"--param", "KEY=VALUE", "Parameter for the plugin; repeatable", &Arguments::parameters};
  static constexpr Flag kTopology{"--topology", "KEY=VALUE[,...]",
                                  "Topology segments the volume must be reachable from; repeatable",
                                  &Arguments::topologies};
  static constexpr Flag kPreferredTopology{"--preferred-topology", "KEY=VALUE[,...]",
                                           "Preferred topology segments, the best first; repeatable",
                                           &Arguments::preferred_topologies};
  static constexpr Flag kSecret{"--secret", "KEY=VALUE",
                                "Secret; every user can read it in the process list, so prefer --secrets-file",
                                &Arguments::secrets};
  static constexpr Flag kSecretsFile{
      "--secrets-file",       "FILE", "File of secrets: lines of KEY=VALUE, or a JSON object", &Arguments::secrets_file,
      "MOORING_SECRETS_FILE",
      /*is_sent=*/false};
  static constexpr Flag kFromSnapshot{"--from-snapshot", "ID", "Snapshot to fill the volume with",
                                      &Arguments::from_snapshot};
  static constexpr Flag kFromVolume{"--from-volume", "ID", "Volume to copy into the new one", &Arguments::from_volume};

  static inline const FlagsOf<Arguments> kSecretFlags{&kSecretsFile, &kSecret};

  // The flags of every command; `socket` names the server.
  static FlagsOf<Arguments> OfEveryCommand(const Flag& socket) {
    return {&socket, &kTimeout, &kJson, &kTime, &kVerbose};
  }
};

// A running command.
template <typename ArgumentsType>
struct SessionOf {
  using Arguments = ArgumentsType;

  const Arguments& arguments;
  const Client& client;
  Output& output;
  int exit_status = 0;  // a command that answers 'no' sets it

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Stub, Request, Response> method, const Request& request) const {
    return client.Call(method, request);
  }
};

// MOORING_SECRETS_FILE may be set for other commands: a command that takes no secrets ignores it.
template <typename Command, typename Arguments>
absl::Status ReadSecretsFile(const Command& command, Arguments& arguments) {
  const auto& flags = command.optional;
  const bool takes_secrets =
      std::find(flags.begin(), flags.end(), &SharedFlags<Arguments>::kSecretsFile) != flags.end();
  if (!takes_secrets || arguments.secrets_file.empty()) return absl::OkStatus();
  return arguments.secrets.AddFile(arguments.secrets_file);
}

// Connects, runs the command and returns its exit status.
template <typename Session, typename Command>
absl::StatusOr<int> RunOverSocket(const Command& command, const typename Session::Arguments& arguments,
                                  ClientOptions options, const Streams& streams) {
  options.show_time = arguments.show_time;
  options.verbose = arguments.verbose;
  const Client client(std::move(options), streams.err);
  Output output(streams.out, arguments.json);
  Session session{{.arguments = arguments, .client = client, .output = output}};
  MOORING_RETURN_IF_ERROR(command.run(session));
  return session.exit_status;
}

}  // namespace mooring::cli
