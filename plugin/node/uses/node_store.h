// The records of what this node was asked to stage and publish since boot. The kernel knows what is mounted, and the
// records say why.
//
// A record is written before a mount is made (done = false) and again afterwards (done = true), or before it alone
// (RecordAndMount). So a killed process leaves a record of what it had begun. The file is not synced: a power cut may
// lose it, and ends the mounts, too. Several processes may have the file open. Safe from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/mounter.h"
#include "plugin/model/capability.h"

namespace mooring {

// A path at which a volume is staged or published.
struct VolumeUse {
  enum class Role { kStage, kTarget };

  std::string path;
  std::string volume_id;
  Role role = Role::kTarget;
  bool done = false;
  AccessType access_type = AccessType::kMount;
  AccessMode mode = AccessMode::kSingleNodeWriter;
  bool read_only = false;
  std::string capability = {};  // ToString(Capability); empty: the mount was found without a record
  std::string options = {};     // of the filesystem, ToString
  std::string device = {};      // of a block volume: its own, writable device

  std::optional<Propagation> asked_propagation = std::nullopt;  // of the target; none: the plugin's default
  Propagation propagation = Propagation::kInherit;              // a repeated call sets it again; kInherit: any

  bool adopted() const { return capability.empty(); }
  bool operator==(const VolumeUse&) const = default;
};

// The number of uses that are done.
struct UseCount {
  VolumeUse::Role role = VolumeUse::Role::kTarget;
  AccessType access_type = AccessType::kMount;
  std::uint64_t count = 0;

  bool operator==(const UseCount&) const = default;
};

class NodeStore {
 public:
  // Deletes the records of other boots. A damaged file is set aside and created anew: NodeReconciler finds what
  // is mounted. If a full disk makes the file unusable, the records are in the memory of this process, until it ends.
  // FAILED_PRECONDITION: the file has another schema version.
  static absl::StatusOr<std::unique_ptr<NodeStore>> Open(const std::string& path, const std::string& boot_id);
  ~NodeStore();

  absl::Status Put(const VolumeUse& use);  // replaces the record of use.path
  absl::Status Delete(const std::string& path);

  // Writes the record of an intended use, mounts, and records that the use is done. If `mount` fails, the record is
  // deleted, except after UNAVAILABLE: then nobody knows whether it mounted.
  absl::Status MountOnRecord(VolumeUse use, const std::function<absl::Status()>& mount);

  // The same in one transaction, for a mount whose propagation a repeated call sets again. The use is on record as done
  // before it is made. False: a record of the path exists, and `mount` was not called; or `mount` returned false,
  // because it did nothing, and the record is deleted. Errors: as with MountOnRecord.
  absl::StatusOr<bool> RecordAndMount(const VolumeUse& use, const std::function<absl::StatusOr<bool>()>& mount);

  // Records that a use is done. Its intent is on record, so a failed write is logged and fails no call.
  void PutDone(const VolumeUse& use);

  // Deletes the record of a use that has ended. A record without a mount does no harm: if the disk is full, the record
  // stays until the next start.
  absl::Status DeleteEnded(const std::string& path);

  absl::StatusOr<std::optional<VolumeUse>> Get(const std::string& path);
  absl::StatusOr<std::vector<VolumeUse>> OfVolume(const std::string& volume_id);
  absl::StatusOr<std::vector<VolumeUse>> All();

  // Without combinations that have no use. It reads the whole table on its own connection, so no call waits for it.
  absl::StatusOr<std::vector<UseCount>> CountUses();

 private:
  struct Database;
  explicit NodeStore(std::unique_ptr<Database> database);
  static absl::StatusOr<std::unique_ptr<NodeStore>> TryOpen(const std::string& path, const std::string& boot_id);
  std::unique_ptr<Database> database_;
};

}  // namespace mooring
