// Finds directory volumes by their inode.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/file/unique_fd.h"

namespace mooring {

class VolumeDirectories {
 public:
  // The directories that have a directory volume in each of their entries.
  explicit VolumeDirectories(std::vector<std::string> pools) : pools_(std::move(pools)) {}

  const std::vector<std::string>& pools() const { return pools_; }

  // The name of the directory `place`, which may be O_PATH, in the pool where it lies now. Empty: it lies in none. An
  // error: some pool cannot be read, and no readable pool has it. The path of `place` and earlier answers only suggest
  // a name, and the entry of that name decides. If no name fits, all names of the pools on the same device are read:
  // about 1 ms for each 2,000.
  absl::StatusOr<std::string> NameOf(const UniqueFd& place) const;

 private:
  struct Entry {
    std::string pool, name;
  };
  using Inode = std::pair<dev_t, ino_t>;

  absl::StatusOr<std::string> FindKnown(const Inode& inode) const;
  absl::StatusOr<std::string> FindByName(const Inode& inode, const std::string& name) const;
  absl::Status ReadNames(const Inode& inode) const;

  const std::vector<std::string> pools_;
  mutable absl::Mutex mutex_;
  mutable std::map<Inode, Entry> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mooring
