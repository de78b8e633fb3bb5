// The statistics of volumes in use here, and their problems: damaged or full filesystems, short images, and
// devices that belong to another volume now.
//
// It keeps no state and takes no locks, so that a hanging filesystem does not block its Unpublish, and no list blocks a
// call. NodeVolumes calls it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugin/node/uses/volume_finder.h"

namespace mooring {

struct VolumeStats {
  StatsInfo usage;
  bool is_block = false;
  std::string problem;  // a sentence; empty: healthy
};

class VolumeHealth {
 public:
  VolumeHealth(Mounter& mounter, VolumeSource& source, NodeStore& store, VolumeFinder& finder)
      : mounter_(mounter), source_(source), store_(store), finder_(finder) {}

  // NOT_FOUND: the volume is not at the path. A dead server of its pool is a problem, with no usage.
  absl::StatusOr<VolumeStats> Stats(const std::string& volume_id, const std::string& volume_path);

  // The problems of the filesystems of these volumes, by volume id. Volumes that are healthy or not mounted here are
  // left out. It takes little more than two seconds, even if a filesystem hangs.
  using Problems = std::map<std::string, std::string>;
  absl::StatusOr<Problems> FindProblems(const std::set<std::string>& volume_ids);

 private:
  absl::StatusOr<VolumeStats> WithoutServer(const std::string& volume_id, const std::string& volume_path,
                                            const absl::Status& why);
  absl::Status Measure(const std::string& path, Examination& seen);
  absl::StatusOr<std::string> MountProblem(const VolumeUse& use);
  Problems ProblemsOf(const std::vector<VolumeUse>& uses);
  std::string ImageProblem(const std::string& volume_id, std::uint64_t device_bytes);
  std::string RoomProblem(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage);
  std::string RoomUnused(const std::string& volume_id, const std::string& fs_type, const StatsInfo& usage);

  Mounter& mounter_;
  VolumeSource& source_;
  NodeStore& store_;
  VolumeFinder& finder_;
};

std::string FullnessOf(const StatsInfo& usage);  // a sentence if 95 % of the bytes or inodes are used, else empty

}  // namespace mooring
