#include "tests/crash/snapshots.h"

#include <set>

#include "tests/rpc/support/rpc_test.h"
#include "tests/support/kernel.h"

namespace mooring::testing {

absl::Status Snapshots::Create(const std::string& volume) {
  const auto answer = driver_.Snap("snapshot", volume);
  if (answer.status.ok()) id_ = answer->snapshot().snapshot_id();
  return answer.status;
}

absl::Status Snapshots::Delete() { return driver_.DeleteSnapshot(id_).status; }

absl::Status Snapshots::CreateGroup(const std::vector<std::string>& volumes) {
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("group");
  request.mutable_source_volume_ids()->Assign(volumes.begin(), volumes.end());
  const auto answer = driver_.Send(request);
  if (answer.status.ok()) group_ = answer->group_snapshot().group_snapshot_id();
  return answer.status;
}

absl::Status Snapshots::DeleteGroup() {
  csi::v1::DeleteVolumeGroupSnapshotRequest request;
  request.set_group_snapshot_id(group_);
  return driver_.Send(request).status;
}

std::vector<csi::v1::Snapshot> Snapshots::List() {
  const auto answer = driver_.Send(csi::v1::ListSnapshotsRequest());
  EXPECT_OK(answer);
  std::vector<csi::v1::Snapshot> snapshots;
  for (const auto& entry : answer->entries()) snapshots.push_back(entry.snapshot());
  return snapshots;
}

void Snapshots::Expect(std::size_t count) {
  EXPECT_EQ(List().size(), count);
  ExpectWhole();
}

void Snapshots::ExpectWhole() {
  for (const csi::v1::Snapshot& snapshot : List()) {
    const std::string subvolume = images_ + "/" + snapshot.snapshot_id(), image = subvolume + ".img";
    EXPECT_TRUE(snapshot.ready_to_use()) << image;
    if (fs::exists(subvolume)) {
      EXPECT_EQ(ReadFile(subvolume + "/data"), data_) << subvolume;
      EXPECT_EQ(TryWrite(subvolume + "/more", "x"), EROFS) << subvolume;
      continue;
    }
    EXPECT_EQ(Run("e2fsck -fn " + image + " >/dev/null 2>&1"), 0) << image;
    EXPECT_EQ(RunOutput("debugfs -R 'cat /data' " + image + " 2>/dev/null"), data_) << "other data in " << image;
  }
}

// Uses the list, because a call that failed returned no id.
void Snapshots::TakeDown() {
  ExpectWhole();
  std::set<std::string> groups;
  for (const csi::v1::Snapshot& snapshot : List()) {
    id_ = snapshot.snapshot_id();
    group_ = snapshot.group_snapshot_id();
    if (!group_.empty() && !groups.insert(group_).second) continue;  // deleted with another member
    EXPECT_OK(group_.empty() ? Delete() : DeleteGroup());
  }
}

}  // namespace mooring::testing
