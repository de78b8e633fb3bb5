// The single steps on the subvolumes of a pool, through the open directory of the pool. They need CAP_SYS_ADMIN.
// mounter/subvolume/pool_calls.h combines them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter/subvolume/quota.h"
#include "mounter/subvolume/strangers.h"
#include "mounter/subvolumes.h"

namespace mooring {

class SubvolumePool {
 public:
  // FAILED_PRECONDITION: it is not the top of a btrfs.
  static absl::StatusOr<SubvolumePool> Open(const std::string& path);

  // All names are of entries of the pool. All groups have the level 1, and are given by their number.

  // Waits until no other call changes subvolumes of these names, also of a helper whose plugin was killed. Keeps others
  // away as long as the result lives. ABORTED: it takes longer than some seconds.
  absl::StatusOr<UniqueFd> Lock(const std::vector<std::string>& names) const;

  // FAILED_PRECONDITION: the entry is no subvolume.
  absl::StatusOr<bool> Has(const std::string& name) const;

  // `source` empty: an empty subvolume. `group` 0: in no group.
  struct Draft {
    std::string name;
    std::string source = {};
    std::uint64_t group = 0;
    bool read_only = false;
  };
  absl::Status Make(const Draft& draft) const { return MakeIn(directory_, draft); }

  // The same in a directory of its own, <name>.making, until Show. While that directory exists, the subvolume is not
  // finished. The kernel makes one subvolume at a time in a directory.
  absl::Status MakePlaceApart(const std::string& name) const;  // the directory
  absl::Status MakeApart(const Draft& draft) const;
  absl::Status Show(const Draft& draft) const;
  absl::Status RemovePlaceApart(const std::string& name) const;  // OK if it does not exist

  // The transaction in which MakeApart made it: all snapshots of one transaction show the same instant.
  absl::StatusOr<std::uint64_t> TransactionOf(const std::string& name) const;

  absl::Status MakeGroup(std::uint64_t group) const;  // OK if it exists
  absl::Status Limit(std::uint64_t group, std::uint64_t bytes) const;

  // FAILED_PRECONDITION: the subvolume is no member.
  absl::Status CheckIsMember(const std::string& name, std::uint64_t group) const;

  // PutBackStrangers of mounter/subvolume/strangers.h. Does nothing if the group or the subvolume does not exist.
  absl::StatusOr<PutBackCount> PutBackStrangers(const std::string& name, std::uint64_t group) const;

  // Its members stay, as members of no group. OK if it does not exist.
  absl::Status RemoveGroup(std::uint64_t group) const;

  // Removes what an interrupted deletion has left of this subvolume, which may exist again.
  absl::Status FinishDeletion(const std::string& name) const;

  // Renames it, so that it is whole or gone. OK if it does not exist.
  absl::Status Hide(const std::string& name) const;

  // After Hide, with all subvolumes inside, and what MakeApart has made. OK if it does not exist.
  absl::Status Delete(const std::string& name) const;

  // Without Hide: if it is interrupted, the subvolume stays without some of those inside.
  absl::Status DeleteInPlace(const std::string& name) const { return DeleteHidden(name); }

  // Removes groups of deleted subvolumes, as far as no snapshot uses their data any more. Before Linux 6.11 the kernel
  // removes none, and later only those without data.
  absl::Status RemoveStaleGroups() const;

  // Begins a commit of the earlier steps, and returns before it is done.
  absl::Status BeginCommit() const;

  // Makes all earlier steps durable.
  absl::Status Commit() const;

  // Turns simple quotas on.
  absl::Status EnableQuotas() const;

  absl::StatusOr<BtrfsQuotas> Quotas() const { return BtrfsQuotas::Of(directory_, path_); }
  absl::StatusOr<bool> IsEmpty() const;                    // no subvolume lies in it
  absl::StatusOr<std::vector<std::string>> Names() const;  // of its entries

 private:
  SubvolumePool(UniqueFd directory, std::string path) : directory_(std::move(directory)), path_(std::move(path)) {}

  absl::Status DeleteHidden(const std::string& path) const;
  absl::Status MakeIn(const UniqueFd& directory, const Draft& draft) const;
  absl::Status Failed(int error, const std::string& operation) const;

  UniqueFd directory_;
  std::string path_;
};

}  // namespace mooring
