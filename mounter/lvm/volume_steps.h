// Steps that several calls of LogicalVolumes have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mounter/logical_volumes.h"
#include "mounter/lvm/lvm_program.h"
#include "mounter/lvm/lvm_report.h"
#include "mounter/path/lvm_names.h"

namespace mooring {

// A name that may become an argument of lvm.
struct LvmVolume {
  LvmPool pool;
  std::string name;
  std::string path() const { return pool.group + "/" + name; }  // as lvm writes it
};

absl::StatusOr<LvmVolume> ParseLvmVolume(const std::string& pool, const std::string& name);

// The state of the pool, after repairs: suspended devices are resumed, and the thin pool gets its device. Without a
// device the pool does not tell how full it is. If that fails, LvmReport::problem says so.
absl::StatusOr<LvmState> ReadFully(const Lvm& lvm, const LvmPool& pool);

// UNAVAILABLE: disks of the group are missing, so lvm would refuse each change.
absl::Status CheckDisks(const LvmState& state, const LvmPool& pool);

// RESOURCE_EXHAUSTED: the group has less than `more` bytes left.
absl::Status CheckRoom(const LvmState& state, const LvmPool& pool, std::uint64_t more);

// Up to whole extents. OUT_OF_RANGE: no such number.
absl::StatusOr<std::uint64_t> RoundUpToExtents(std::uint64_t bytes, const LvmState& state);

// Also where the flag of a snapshot says that it gets no device.
absl::Status GiveDevice(const Lvm& lvm, const LvmVolume& volume);

// OK if it has none. FAILED_PRECONDITION: it is in use.
absl::Status TakeDevice(const Lvm& lvm, const LvmVolume& volume);

// Gives the device the state that the group's metadata describes. Ends its suspension. `path`: "GROUP/NAME".
absl::Status Refresh(const Lvm& lvm, const std::string& path);

// `changes`: options of lvchange(8) such as "--addtag TAG". They are made in one step.
absl::Status ChangeMetadata(const Lvm& lvm, const LvmVolume& volume, const std::vector<std::string>& changes);

std::string ClearedTag(std::uint64_t bytes);

absl::Status Extend(const Lvm& lvm, const LvmVolume& volume, std::uint64_t bytes);

}  // namespace mooring
