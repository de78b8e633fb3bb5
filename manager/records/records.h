// The records of the manager: volumes, snapshots, claims, hosts, attachments and plugins. They are plain values;
// record_codec.h converts them for the state and for callers.
//
// Every record has the revisions with which it was read from the state; 0: it was never stored. A change is refused if
// the stored modify revision is another, so two writers never overwrite each other unnoticed.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mounter/mounter.h"

namespace mooring::manager {

using StringMap = std::map<std::string, std::string>;
using Time = std::chrono::system_clock::time_point;  // not the monotonic clock, because records outlive the boot

// The secrets of a volume. They can only be stored and sent to a plugin; there is no way to print them.
class Secrets {
 public:
  Secrets() = default;
  explicit Secrets(std::map<std::string, std::string> pairs) : pairs_(std::move(pairs)) {}

  bool empty() const { return pairs_.empty(); }
  bool operator==(const Secrets&) const = default;

  // Copies the secrets into the map of a request or of a stored message.
  template <typename Map>
  void CopyTo(Map& map) const {
    for (const auto& [key, value] : pairs_) map[key] = value;
  }

 private:
  std::map<std::string, std::string> pairs_;
};

// Enums of records have the numbers of proto/manager.proto.
enum class AccessMode {
  kSingleNodeReaderOnly = 1,
  kSingleNodeWriter,
  kSingleNodeSingleWriter,
  kSingleNodeMultiWriter,
  kMultiNodeReaderOnly,
  kMultiNodeSingleWriter,
  kMultiNodeMultiWriter,
};
enum class AttachmentMode { kFileSystem = 1, kBlockDevice };
enum class ClaimMode { kRead = 1, kWrite };

struct Capability {
  AccessMode access = AccessMode::kSingleNodeWriter;
  AttachmentMode attachment = AttachmentMode::kFileSystem;

  auto operator<=>(const Capability&) const = default;
};

struct MountOptions {
  std::string fs_type;
  std::vector<std::string> flags;  // may contain secrets: never logged

  bool operator==(const MountOptions&) const = default;
};

struct Revisions {
  std::int64_t create = 0;
  std::int64_t modify = 0;

  void SetStored(std::int64_t revision) {
    modify = revision;
    if (create == 0) create = revision;
  }
  bool operator==(const Revisions&) const = default;
};

struct VolumeKey {
  std::string ns = "default";
  std::string id;  // with its per-alloc index: "db[3]"

  auto operator<=>(const VolumeKey&) const = default;
};

struct Topology {
  StringMap segments;
  auto operator<=>(const Topology&) const = default;
};

// A volume: what was given at create or register, and what the plugin answered.
struct Volume {
  VolumeKey key;
  std::string name;         // sent to CreateVolume; empty: made from the key at the first call, and stored
  std::string external_id;  // the plugin's; empty until it is created
  std::string plugin;
  std::vector<Capability> capabilities;
  MountOptions mount_options;
  Secrets secrets;                   // kept under a key of their own and never shown
  bool has_secrets = false;          // as stored; with empty `secrets`, the stored secrets are kept
  int flags_left_out = 0;            // stored mount flags that `mount_options` does not have, and that are kept
  std::string secrets_problem = {};  // why the stored secrets or mount flags cannot be read; never stored
  StringMap parameters;
  StringMap context;  // of the plugin
  std::vector<Topology> required_topologies, preferred_topologies;
  std::vector<Topology> topologies;            // from where it can be reached, as the plugin answered
  std::uint64_t min_bytes = 0, max_bytes = 0;  // as requested; 0: the plugin decides
  std::uint64_t capacity_bytes = 0;            // as the plugin answered; 0: unknown
  std::string snapshot_id, clone_id;           // external id of its source; at most one is set

  enum class State { kReady, kCreating, kDeleting };
  State state = State::kReady;
  std::string worker;         // the host that creates or deletes it; empty: state is kReady
  bool created_here = false;  // by CreateVolume; false: it was registered, and is only forgotten when deregistered

  // The plugin has expanded the volume, and NodeExpandVolume has still to be called.
  bool node_expansion_owed = false;

  std::optional<Capability> in_use;  // the mode of its claims; none: it is unclaimed
  std::optional<Time> exhausted_at;  // a publish failed with RESOURCE_EXHAUSTED
  std::string exhausted_host;        // on this host
  std::string exhausted_words;

  std::optional<Time> created_at;  // when the manager created or registered it

  Revisions revisions;
};

// A snapshot of a volume. The manager stores a record of each that it takes, before it calls the plugin. So a call that
// was cut short can be finished, and every host knows from where the snapshot can be reached.
struct Snapshot {
  std::string plugin;
  std::string name;  // sent to CreateSnapshot; empty: there is no record of it
  std::string id;    // the plugin's; empty: it is being taken
  std::optional<VolumeKey> source;
  std::string source_volume_id;  // the plugin's id of the source
  StringMap parameters;
  std::vector<Topology> topologies;  // from where it can be reached: those of its source
  std::uint64_t bytes = 0;
  Time made_at = {};
  bool ready = false;        // it can be used
  bool is_unlisted = false;  // its controller has answered, and does not list it (any more, or yet); never stored
  std::string worker;        // the host that takes it; empty: it has been taken

  Revisions revisions;

  bool operator==(const Snapshot&) const = default;
};

// The claim of an allocation on a volume, in one mode. Each state is stored before the next step is taken:
//
//   kTaken               the node may use the volume
//   kUnmountFailed       the node has tried to unmount the volume, and may still use it
//   kNodeDetached        the node does not use it any more, or has been given up. The controller is asked next
//   kControllerDetached  the controller has detached it. The record is deleted next: the claim is freed
struct Claim {
  enum class State { kTaken, kUnmountFailed, kNodeDetached, kControllerDetached };

  VolumeKey volume;
  std::string allocation;
  std::string node;  // the host that holds it
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  std::string external_node_id;  // the plugin's id for that node when the claim was taken
  State state = State::kTaken;
  bool kept = false;  // a user asked for it: a detach does not release it
  bool past = false;  // its allocation is gone, so the manager releases it
  bool lost = false;  // its host is lost: it excludes nobody, and stays only until its controller has been asked
  std::optional<Time> past_since;

  // ControllerPublishVolume: not sent, sent without a known outcome, done, or refused by the plugin.
  enum class Publish { kNone, kSent, kDone, kRefused };
  Publish publish = Publish::kNone;
  StringMap publish_context;

  std::string problem;  // the last error of its release; empty: none
  Time taken_at = {};
  Revisions revisions;
};

// A volume and all its claims, as they were at one revision.
struct VolumeUse {
  std::optional<Volume> volume;  // with its secrets; none: it does not exist
  std::vector<Claim> claims;
};

// A host of the state: it joins at its first start, and is alive while it holds its lease.
struct Host {
  std::string name;
  std::string version;          // of its manager
  bool draining = false;        // it takes no new claims
  bool lost = false;            // a person says that nothing runs on it any more; cleared when its manager is back
  bool gave_up_claims = false;  // others freed claims; until it knows which of its mounts they were for
  Time joined_at = {};
  std::optional<Time> away_since;  // when another host saw that its lease had ended
  Revisions revisions;
};

struct HostStatus {
  Host host;
  bool alive = false;              // it has a lease
  std::int64_t live_revision = 0;  // of its key LiveKey; 0: it is not alive
};

// Whether both belong to the same claim: an allocation has one claim on a volume in each mode. For claims, requests for
// claims, and AttachmentRecords.
template <typename A, typename B>
bool AreOfOneClaim(const A& a, const B& b) {
  return a.volume == b.volume && a.mode == b.mode && a.allocation == b.allocation;
}

// The mode and options with which a volume is staged and published. They are the same for all its users on a host,
// because a plugin may keep one staging path per volume. Only the publish differs between users: read-only or not.
struct StagedAs {
  AccessMode access = AccessMode::kSingleNodeWriter;
  MountOptions options;

  bool operator==(const StagedAs&) const = default;
};

// A volume that is attached for an allocation at a path of this host. The intent is stored before the first mount, the
// outcome after the last.
struct AttachmentRecord {
  enum class Phase { kIntent, kMounted, kUnmounting };

  std::string allocation;
  std::string request;  // the allocation's name for the volume; it may use one volume under two names
  VolumeKey volume;
  std::string external_id;
  std::string plugin;
  std::string external_node_id;
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  MountOptions options;  // of the volume, with the overrides of the request
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::optional<StagedAs> staged_as;  // none: staged with `capability` and `options`
  std::string usage;                  // UsageName
  std::string staging_path;           // empty: the plugin stages nothing
  std::string target_path;            // where the plugin publishes
  std::string attach_path;            // where the manager binds the target for the user; empty: nowhere
  bool made_attach_path = false;      // the manager made the path, and removes it with the mount
  std::uint64_t attach_mount_id = 0;  // the kernel's id of that bind; a mount with another id is not the manager's
  std::string boot;                   // boot id of the kernel when the target was published; empty: it never was
  bool until_reboot = false;          // a reboot ends it, as it ends a mount of mount(8)
  Phase phase = Phase::kIntent;
  bool refusable = false;  // kUnmounting: given up if the volume cannot be taken from its user; else repeated
  std::string problem;     // the error of the last try to mount or unmount
  std::string source;      // the path that a task driver binds
  bool is_device = false;
  std::string mounted_by;     // AttachRequest::mounted_by of the last attach
  std::uint64_t repeats = 0;  // attaches of `mounted_by`, beside the first, that it has not ended

  Revisions revisions;
};

enum class PluginType { kNode = 1, kController };
inline constexpr std::array kPluginTypes = {PluginType::kNode, PluginType::kController};

// A running plugin instance in the registry.
struct InstanceInfo {
  PluginType type = PluginType::kNode;
  std::string name;
  std::string version;
  std::string socket_path;
  std::string instance_id;
  std::string provider;  // how it runs: "exec", "container", "endpoint"; "host": on the host `instance_id`
  // The directory of the host below which the instance sees paths, and its path in the instance; empty: the same path.
  std::string mount_point, container_mount_point;

  bool operator==(const InstanceInfo&) const = default;
};

// A path of the host that the container sees in addition to those of every plugin, such as its configuration.
struct PluginBind {
  std::string source, target;
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  bool operator==(const PluginBind&) const = default;
};

struct PluginRun {
  enum class Kind { kExec, kContainer };
  Kind kind = Kind::kExec;
  std::vector<std::string> command;  // kExec: program and arguments; kContainer: arguments
  std::string image;
  StringMap environment;  // may hold secrets: never logged
  std::string engine;     // kContainer: the API socket of Docker or Podman
  std::vector<PluginBind> binds;
  std::chrono::seconds start_deadline{300};
  std::uint64_t generation = 1;  // grows with each change of the run; a new generation replaces the old instance
  bool operator==(const PluginRun&) const = default;
};

// A declared plugin: who declares it, and how the manager runs it, or where somebody else serves it.
struct PluginRecord {
  using Bind = PluginBind;
  using Run = PluginRun;

  std::string name;
  std::vector<std::string> declared_by;  // jobs, units, containers, people
  std::optional<Run> run;                // none: somebody else runs it
  std::string endpoint;                  // socket of a plugin that somebody else runs
  std::vector<PluginType> types;         // the services it was found to have
  Revisions revisions;
};

}  // namespace mooring::manager
