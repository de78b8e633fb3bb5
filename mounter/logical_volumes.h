// The part of the interface of mounter/ for LVM. mounter/mounter.h has the rules for all its parts.
//
// A pool is "GROUP", for thick volumes, or "GROUP/THINPOOL". Its logical volumes are named by the ids of volumes and
// snapshots, and have a tag. No call changes a logical volume without it. All facts about a volume stand in the
// metadata of its group alone (mounter/lvm/lvm_tags.h), so a lost state directory changes nothing about it.
//
// All calls run `lvm`. While it changes something it is never killed: that would leave devices suspended. Each call
// resumes devices that a killed lvm left suspended, and gives a thin pool its device.
//
// DEADLINE_EXCEEDED: lvm still runs, or a report took too long. UNAVAILABLE: the group, the thin pool, or a disk of it
// is missing now, or an lvm of an earlier call still runs. FAILED_PRECONDITION: lvm is not installed, or it refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

struct LogicalVolumeName {
  std::string pool;
  std::string name;
};

struct LogicalVolume {
  std::string name;
  std::uint64_t bytes = 0;
  bool is_new = false;
  // It shows no data of others: all of it was cleared, or its thin pool zeroes new blocks.
  bool is_cleared = false;
  // Not all of it is cleared: a GrowLogicalVolume was interrupted, and has to be repeated before anybody uses it.
  bool is_growing = false;
  // Not all of it is cleared: somebody else enlarged it.
  bool is_enlarged = false;
  bool is_active = false;  // it has a device that answers
  bool is_open = false;    // and that somebody has open, or mounted
  bool is_raw = false;     // a task had it as a raw device, or it is a copy of such a volume
};

struct LvmReport {
  std::uint64_t bytes = 0, free_bytes = 0;        // of the group, or of the thin pool
  std::uint64_t extent_bytes = 0;                 // each size is a multiple
  double data_percent = 0, metadata_percent = 0;  // in use of the thin pool; 0: there is none
  bool zeroes = false;                            // a thin pool that zeroes new blocks
  std::string problem = {};                       // a sentence: what is wrong with the pool; empty: nothing
  std::vector<LogicalVolume> volumes;             // those of Mooring
};

struct NewLogicalVolume {
  std::string pool;
  std::string name;
  std::uint64_t bytes = 0;  // rounded up to extents

  // Tasks get it as a raw device: all of it is cleared. Else only what would look like a filesystem. A thin pool that
  // zeroes new blocks needs neither.
  bool clear = false;

  // A thin volume of the same pool, of which it becomes a snapshot: with what was written before the call. A mounted
  // filesystem is frozen for a moment.
  std::string source = {};
  bool is_snapshot = false;        // it gets no device, and keeps the size of its source
  std::string renew_fs_type = {};  // the type of the filesystem that gets a new UUID; empty: none does
};

class LogicalVolumes {
 public:
  virtual ~LogicalVolumes() = default;

  virtual absl::StatusOr<LvmReport> ReportLvm(const std::string& pool) = 0;

  // Removes what an interrupted call left under that name, and makes it anew. OK if it exists, is finished, and was
  // asked for without a source. ALREADY_EXISTS: it has one.
  // RESOURCE_EXHAUSTED: no room. NOT_FOUND: there is no source.
  virtual absl::Status MakeLogicalVolume(const NewLogicalVolume& volume) = 0;

  // Never shrinks. A thick volume that was cleared has no device meanwhile, and is cleared further. That also goes on
  // after an interruption. FAILED_PRECONDITION: such a volume is in use, or is_enlarged: tasks may have written to what
  // would be cleared. NOT_FOUND: it does not exist, or is not finished.
  virtual absl::Status GrowLogicalVolume(const LogicalVolumeName& volume, std::uint64_t bytes) = 0;

  // Gives the finished volume its device, /dev/mapper/<LvmDeviceName>.
  virtual absl::Status ActivateLogicalVolume(const LogicalVolumeName& volume) = 0;

  // LogicalVolume::is_raw from now on. NOT_FOUND: it does not exist, or is not finished.
  virtual absl::Status NoteRawLogicalVolume(const LogicalVolumeName& volume) = 0;

  // OK if it does not exist. FAILED_PRECONDITION: it is in use, has not the tag of Mooring, is of another pool, or
  // other logical volumes depend on it.
  virtual absl::Status RemoveLogicalVolume(const LogicalVolumeName& volume) = 0;
};

}  // namespace mooring
