// The state of a pool, from the JSON of two reports of lvm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/logical_volumes.h"
#include "mounter/lvm/lvm_program.h"
#include "mounter/lvm/lvm_tags.h"
#include "mounter/path/lvm_names.h"

namespace mooring {

// A volume of LvmReport, with what only mounter/lvm/ needs.
struct LvmVolumeState {
  LogicalVolume volume;
  bool is_suspended = false;
  bool has_growth_note = false;  // kLvmGrowingTag
  bool has_dependents = false;   // snapshots of it that are not Mooring's: lvm would remove them with it
  // So many bytes from the start are cleared. Not set for a thin volume, or a thick one that was made for a filesystem.
  std::optional<std::uint64_t> cleared_bytes = {};
};

struct LvmState {
  LvmReport report;
  std::uint64_t missing_disks = 0;
  bool is_thin_pool_active = false;  // else data_percent and metadata_percent are not known
  bool is_thin_pool_suspended = false;
  std::vector<LvmVolumeState> volumes;
  std::vector<std::string> other_names;  // logical volumes of the group that the report leaves out
};

// The commands whose reports ParseLvmState reads.
LvmCommand GroupReportCommand(const LvmPool& pool);
LvmCommand VolumeReportCommand(const LvmPool& pool);

// Whether the report of the groups shows the pool's, and only one. The command may have failed because of another
// group. Its words are the error if it does not show ours.
absl::Status CheckGroupReport(std::string_view doing, const LvmReportText& groups, const LvmPool& pool);

// UNAVAILABLE: there is no such group or thin pool. FAILED_PRECONDITION: two groups have the name, or the name of the
// thin pool is that of another kind of volume. INTERNAL: the text is no such report.
absl::StatusOr<LvmState> ParseLvmState(const std::string& groups, const std::string& volumes, const LvmPool& pool);

// Runs both commands, the groups first. Another group may be broken.
absl::StatusOr<LvmState> ReadLvmState(const Lvm& lvm, const LvmPool& pool);

// "GROUP/NAME" of the thin pool and the volumes of Mooring that are suspended, the pool first.
std::vector<std::string> SuspendedIn(const LvmState& state, const LvmPool& pool);

// Null: there is none, or it is not finished.
const LvmVolumeState* FindFinished(const LvmState& state, std::string_view name);

}  // namespace mooring
