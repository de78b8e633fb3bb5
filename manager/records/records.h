// What the manager keeps: volumes, claims, attachments, plugins. Plain values; record_codec.h writes them down and
// shows them to callers.
//
// Every record has the revisions of the state it was read from: 0 in one that was never stored. A change compares
// modify_revision, so two writers never overwrite each other unseen.
#ifndef MOORING_MANAGER_RECORDS_RECORDS_H_
#define MOORING_MANAGER_RECORDS_RECORDS_H_

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manager/records/secrets.h"
#include "mounter/mounter.h"

namespace mooring::manager {

using StringMap = std::map<std::string, std::string>;
using Time = std::chrono::system_clock::time_point;  // of records: they outlive the boot

enum class AccessMode {
  kSingleNodeReaderOnly,
  kSingleNodeWriter,
  kSingleNodeSingleWriter,
  kSingleNodeMultiWriter,
  kMultiNodeReaderOnly,
  kMultiNodeSingleWriter,
  kMultiNodeMultiWriter,
};
enum class Attachment { kFileSystem, kBlockDevice };
enum class ClaimMode { kRead, kWrite };

struct Capability {
  AccessMode access = AccessMode::kSingleNodeWriter;
  Attachment attachment = Attachment::kFileSystem;

  auto operator<=>(const Capability&) const = default;
};

struct MountOptions {
  std::string fs_type;
  std::vector<std::string> flags;  // may be sensitive: never logged

  bool operator==(const MountOptions&) const = default;
};

struct Revisions {
  std::int64_t create = 0;
  std::int64_t modify = 0;
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

// Given at create or register, and what came back from the plugin.
struct Volume {
  VolumeKey key;
  std::string name;         // sent to CreateVolume; empty: made from the key
  std::string external_id;  // the plugin's; empty until it is created
  std::string plugin;
  std::vector<Capability> capabilities;
  MountOptions mount_options;
  Secrets secrets;           // kept under a key of their own and never shown
  bool has_secrets = false;  // as stored; they stay where this is set and `secrets` was not read
  StringMap parameters;
  StringMap context;  // of the plugin
  std::vector<Topology> required_topologies, preferred_topologies;
  std::vector<Topology> topologies;            // from where it can be reached, as the plugin said
  std::uint64_t min_bytes = 0, max_bytes = 0;  // asked; 0: the plugin decides
  std::uint64_t capacity_bytes = 0;            // as the plugin said; 0: unknown
  std::string snapshot_id, clone_id;           // external ids of what it was made from: one of them at most

  enum class State { kCreating, kReady, kDeleting };
  State state = State::kReady;
  bool created_here = false;  // by CreateVolume; else registered, and only forgotten when deregistered

  // It grew at its plugin, and what is mounted of it has not followed, or nothing was: NodeExpandVolume is to come.
  bool node_expansion_owed = false;

  std::optional<Capability> in_use;  // the mode of the claims there are; none: unclaimed
  std::optional<Time> exhausted_at;  // the plugin said RESOURCE_EXHAUSTED to a publish
  std::string exhausted_words;

  Revisions revisions;
};

// Of one allocation in one mode; (f) 5. Its states, each stored before the step behind it is taken:
//
//   taken ──▶ unpublishing ──▶ node-detached ──▶ controller-detached ──▶ (freed: the record goes)
struct Claim {
  enum class State { kTaken, kUnpublishing, kNodeDetached, kControllerDetached };

  VolumeKey volume;
  std::string allocation;
  std::string node;  // the host that holds it
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  std::string external_node_id;  // the plugin's id of that node, at the time of the claim
  State state = State::kTaken;
  bool kept = false;  // a user asked for it: it stays when what is attached with it is detached
  bool past = false;  // its allocation is gone: for the collector
  std::optional<Time> past_since;

  // ControllerPublishVolume for it: nothing sent, sent (an outcome is owed), done.
  enum class Publish { kNone, kSent, kDone };
  Publish publish = Publish::kNone;
  StringMap publish_context;

  std::string problem;  // why its release does not go on; empty: it does
  Time taken_at = {};
  Revisions revisions;
};

// Whether both are of one claim: an allocation has one of a volume in each mode. Of claims, what asks for them, and
// MountRecords.
template <typename A, typename B>
bool AreOfOneClaim(const A& a, const B& b) {
  return a.volume == b.volume && a.mode == b.mode && a.allocation == b.allocation;
}

// The mode and options that a volume is staged and published with, by all its users on a host. What differs between
// them, read-only or not, is told by the publish alone: a plugin may keep one staging path per volume.
struct StagedAs {
  AccessMode access = AccessMode::kSingleNodeWriter;
  MountOptions options;

  bool operator==(const StagedAs&) const = default;
};

// A volume at a path of this host, for an allocation: (e) 1. The intent is written before the first mount, the outcome
// after the last.
struct MountRecord {
  enum class Phase { kIntent, kMounted, kUnmounting };

  std::string allocation;
  std::string request;  // its name for the volume: one allocation may ask for one volume under two names
  VolumeKey volume;
  std::string external_id;
  std::string plugin;
  std::string external_node_id;
  ClaimMode mode = ClaimMode::kRead;
  Capability capability;
  MountOptions options;  // as sent: the volume's, overridden
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::optional<StagedAs> staged_as;  // none: as `capability` and `options` say
  std::string usage;                  // UsageName
  std::string staging_path;           // empty: the plugin stages nothing
  std::string target_path;            // where the plugin publishes
  std::string attach_path;            // where the manager binds the target for the user; empty: it does not
  bool made_attach_path = false;      // nothing was there before: removed again with the mount
  std::uint64_t attach_mount_id = 0;  // the kernel's, of that bind: another one there is somebody else's
  std::string boot;                   // boot id of the kernel when the target was published; empty: it never was
  Phase phase = Phase::kIntent;
  std::string problem;  // why the last try to mount or unmount it failed
  // MountInfo of the specification: what a task driver binds.
  std::string source;
  bool is_device = false;

  Revisions revisions;
};

enum class PluginType { kNode, kController };
inline constexpr std::array kPluginTypes = {PluginType::kNode, PluginType::kController};

// A running plugin as the registry knows it; (a) 1.
struct InstanceInfo {
  PluginType type = PluginType::kNode;
  std::string name;
  std::string version;
  std::string socket_path;
  std::string instance_id;
  // options: what of the host the instance sees where.
  std::string provider;
  std::string mount_point;  // on the host; the same path in the instance where the next is empty
  std::string container_mount_point;

  bool operator==(const InstanceInfo&) const = default;
};

// Who expects a plugin to be there (k) 5, and how the manager runs it, where it does (j).
struct PluginRecord {
  // A path of the host that a container sees besides what every plugin's does: its state, its configuration.
  struct Bind {
    std::string source, target;
    bool read_only = false;
    Propagation propagation = Propagation::kPrivate;
    bool operator==(const Bind&) const = default;
  };
  struct Run {
    enum class Kind { kExec, kContainer };
    Kind kind = Kind::kExec;
    std::vector<std::string> command;  // kExec: program and arguments; kContainer: arguments
    std::string image;
    StringMap environment;  // may hold secrets: never logged
    std::string engine;     // kContainer: the API socket of Docker or Podman
    std::vector<Bind> binds;
    std::chrono::seconds start_deadline{300};
    std::uint64_t generation = 1;  // grows with each update: another generation is started beside it
    bool operator==(const Run&) const = default;
  };

  std::string name;
  std::vector<std::string> declared_by;  // jobs, units, containers, people
  std::optional<Run> run;                // none: somebody else runs it
  std::string endpoint;                  // of one that somebody else runs
  std::vector<PluginType> types;
  Revisions revisions;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_RECORDS_H_
