// What this node was asked to stage and publish, since boot. The kernel says what is mounted; this says why.
//
// A record is written before the kernel is touched (done = false) and again afterwards (done = true), so that a process
// that is killed between leaves a trace for the next. The file's loss at a power cut costs nothing: the mounts go with
// it. Several processes may have it open. Safe from several threads.
#ifndef MOORING_PLUGIN_NODE_NODE_STORE_H_
#define MOORING_PLUGIN_NODE_NODE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/model/capability.h"

namespace mooring {

// One path that a volume is used at.
struct VolumeUse {
  enum class Role { kStage, kTarget };

  std::string path;
  std::string volume_id;
  Role role = Role::kTarget;
  bool done = false;
  AccessType access_type = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  bool read_only = false;
  std::string capability;  // ToString of it; empty: found mounted, nobody remembers what was asked
  std::string options;     // of the filesystem, ToString
  std::string device;      // for block: the volume's own (writable) loop device

  std::optional<Propagation> asked_propagation = std::nullopt;  // of the target; none: the plugin's default was taken
  Propagation propagation = Propagation::kInherit;  // that its mount must still have; kInherit: whatever it has

  bool adopted() const { return capability.empty(); }
  bool operator==(const VolumeUse&) const = default;
};

// Of the uses that are done.
struct UseCount {
  VolumeUse::Role role = VolumeUse::Role::kTarget;
  AccessType access_type = AccessType::kMount;
  std::uint64_t count = 0;

  bool operator==(const UseCount&) const = default;
};

class NodeStore {
 public:
  // Forgets everything that was written during another boot. A damaged file is set aside and begun anew: what is
  // mounted is found again (NodeVolumes::Reconcile). Where the disk is full and the file cannot be used for that, the
  // records are in memory: of this process alone, until it ends.
  static absl::StatusOr<std::unique_ptr<NodeStore>> Open(const std::string& path, const std::string& boot_id);
  ~NodeStore();

  absl::Status Put(const VolumeUse& use);  // replaces the record of use.path
  absl::Status Remove(const std::string& path);
  absl::StatusOr<std::optional<VolumeUse>> Get(const std::string& path);
  absl::StatusOr<std::vector<VolumeUse>> OfVolume(const std::string& volume_id);
  absl::StatusOr<std::vector<VolumeUse>> All();

  // Where there are some. By a connection of its own, for it reads them all, and no call is to wait for that.
  absl::StatusOr<std::vector<UseCount>> CountUses();

 private:
  struct Database;
  explicit NodeStore(std::unique_ptr<Database> database);
  static absl::StatusOr<std::unique_ptr<NodeStore>> TryOpen(const std::string& path, const std::string& boot_id);
  std::unique_ptr<Database> database_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_NODE_NODE_STORE_H_
