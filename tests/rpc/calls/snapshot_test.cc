// Snapshots, groups of snapshots and copies, on real filesystems.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class SnapshotRpc : public RpcTest {
 protected:
  Answer<csi::v1::ListSnapshotsResponse> ListSnapshots(const std::string& token = "", int most = 0) {
    csi::v1::ListSnapshotsRequest request;
    request.set_starting_token(token);
    request.set_max_entries(most);
    return driver().Send(request);
  }

  std::string Cloned(const CreateVolumeRequest& request) {
    const auto answer = driver().Send(request);
    EXPECT_OK(answer);
    EXPECT_EQ(answer->volume().content_source().DebugString(), request.volume_content_source().DebugString());
    return answer->volume().volume_id();
  }

  // Stages the volume and returns the path.
  std::string StagedPath(const std::string& volume, const VolumeCapability& capability = Mount()) {
    const std::string path = Staging(volume);
    EXPECT_OK(driver().Stage(volume, path, capability));
    return path;
  }
  static void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text << std::flush; }
  static std::string Uuid(const std::string& image) { return RunOutput("blkid -p -o value -s UUID " + image); }
};

class SnapshotsOf : public SnapshotRpc, public ::testing::WithParamInterface<const char*> {
 protected:
  VolumeCapability Use() const { return Mount(GetParam()); }
  std::int64_t Size() const { return GetParam() == std::string("xfs") ? kXfsBytes : kVolumeBytes; }
};

TEST_P(SnapshotsOf, CopyIsMountedBesideItsSourceAndHasTheRequestedSize) {
  const std::string volume = Created(Use(), Size());
  const std::string source = StagedPath(volume, Use());
  Write(source + "/file", "before");
  const std::string snapshot = Snapped("s", volume);
  Write(source + "/file", "after");
  const std::string of_snapshot = Cloned(CopyRequest("a", snapshot, Use(), 2 * Size()));
  const std::string of_volume = Cloned(CopyRequest("b", volume, Use()));
  EXPECT_EQ(ReadFile(StagedPath(of_snapshot, Use()) + "/file"), "before");
  EXPECT_EQ(ReadFile(StagedPath(of_volume, Use()) + "/file"), "after");
  EXPECT_GT(MountedBytes(Staging(of_snapshot)), MountedBytes(source) * 3 / 2);
  const std::set<std::string> uuids = {Uuid(Image(volume)), Uuid(Image(of_snapshot)), Uuid(Image(of_volume))};
  EXPECT_THAT(uuids, SizeIs(3));
  Write(Staging(of_snapshot) + "/file", "its own");
  EXPECT_EQ(ReadFile(source + "/file"), "after");
}

TEST_P(SnapshotsOf, UnformattedVolumeCanBeCopied) {
  const std::string volume = Created(Use(), Size());
  const std::string snapshot = Snapped("s", volume);
  for (const std::string& source : {volume, snapshot}) {
    const std::string copy = Cloned(CopyRequest("of " + source, source, Use()));
    Write(StagedPath(copy, Use()) + "/file", "x");
  }
}

INSTANTIATE_TEST_SUITE_P(Filesystem, SnapshotsOf, ::testing::Values("ext4", "xfs"), NameOfRow);

TEST_F(SnapshotRpc, BlockVolumeIsCopiedByteForByte) {
  const std::string volume = Created(Block(), kVolumeBytes);
  ASSERT_EQ(Shell("head -c 3000000 /dev/urandom | dd of=" + Image(volume) + " conv=notrunc status=none"), 0);
  const std::string snapshot = Snapped("s", volume);
  const std::string copy = Cloned(CopyRequest("c", snapshot, Block(), 2 * kVolumeBytes));
  EXPECT_EQ(fs::file_size(Image(copy)), 2 * kVolumeBytes);
  EXPECT_EQ(Shell("cmp -n " + std::to_string(kVolumeBytes) + " " + Image(volume) + " " + Image(copy)), 0);
}

TEST_F(SnapshotRpc, SnapshotHasSizeSourceAndTime) {
  const std::string volume = Created();
  const auto before = ::time(nullptr);
  const csi::v1::Snapshot snapshot = driver().Snap("s", volume)->snapshot();
  EXPECT_EQ(snapshot.size_bytes(), kVolumeBytes);
  EXPECT_EQ(snapshot.source_volume_id(), volume);
  EXPECT_TRUE(snapshot.ready_to_use());
  EXPECT_GE(snapshot.creation_time().seconds(), before);
  csi::v1::GetSnapshotRequest get;
  get.set_snapshot_id(snapshot.snapshot_id());
  EXPECT_EQ(driver().Send(get)->snapshot().DebugString(), snapshot.DebugString());
  EXPECT_EQ(driver().Snap("s", volume)->snapshot().DebugString(), snapshot.DebugString());
  EXPECT_EQ(ListSnapshots()->entries(0).snapshot().DebugString(), snapshot.DebugString());
  EXPECT_OK(driver().DeleteSnapshot(snapshot.snapshot_id()));
  EXPECT_THAT(driver().Send(get), FailsWith(Code::kNotFound, "does not exist"));
}

// Kubernetes refuses to restore into a claim smaller than size_bytes. And the claim of a volume may be smaller than the
// volume.
TEST_F(SnapshotRpc, SnapshotIsRestoredWithTheRequestedSizeOfItsVolume) {
  for (const std::int64_t asked : {kMiB, kVolumeBytes + 1}) {
    const std::string name = "v" + std::to_string(asked);
    const auto made = driver().Create(name, Mount(), asked);
    ASSERT_OK(made);
    const std::int64_t bytes = made->volume().capacity_bytes();
    EXPECT_GT(bytes, asked);
    const csi::v1::Snapshot snapshot = driver().Snap("of-" + name, made->volume().volume_id())->snapshot();
    EXPECT_EQ(snapshot.size_bytes(), asked);
    auto restore = CopyRequest("restored-" + name, snapshot.snapshot_id(), Mount(), snapshot.size_bytes());
    EXPECT_EQ(driver().Send(restore)->volume().capacity_bytes(), bytes) << "the size of the snapshot";
    restore.set_name("limited-" + name);
    restore.mutable_capacity_range()->set_limit_bytes(bytes - 1);
    ExpectRefused(restore, Code::kOutOfRange, "raise limit_bytes");
    Restart(SIGTERM);
    EXPECT_EQ(driver().Snap("of-" + name, made->volume().volume_id())->snapshot().size_bytes(), asked);
  }
}

TEST_F(SnapshotRpc, RestoreSizeGrowsWithTheVolume) {
  const std::string volume = Created(Mount(), kMiB);
  ASSERT_OK(driver().Grow(volume, kVolumeBytes + 1));
  const csi::v1::Snapshot grown = driver().Snap("s", volume)->snapshot();
  EXPECT_EQ(grown.size_bytes(), kVolumeBytes + 1);
}

TEST_F(SnapshotRpc, ListReturnsPagesAndRefusesForeignTokens) {
  const std::string volume = Created();
  std::vector<std::string> ids;
  for (const char* name : {"a", "b", "c"}) ids.push_back(Snapped(name, volume));
  const auto first = ListSnapshots("", 2);
  ASSERT_OK(first);
  EXPECT_EQ(first->entries_size(), 2);
  const auto rest = ListSnapshots(first->next_token());
  ASSERT_EQ(rest->entries_size(), 1);
  EXPECT_EQ(rest->entries(0).snapshot().snapshot_id(), ids[2]);
  EXPECT_EQ(rest->next_token(), "");
  for (const char* token : {"-1", "4294967295", "after-", "x"}) {
    EXPECT_THAT(ListSnapshots(token), FailsWith(Code::kAborted, "not given out by ListSnapshots")) << token;
  }
  EXPECT_THAT(ListSnapshots("", -1), FailsWith(Code::kInvalidArgument, "max_entries"));
}

TEST_F(SnapshotRpc, UnknownSourcesAreNotFound) {
  for (const std::string& id : StrangeIds()) {
    ExpectRefused([&] { return driver().Snap("s", id); }, Code::kNotFound, "does not exist");
    ExpectRefused(CopyRequest("c", id), Code::kNotFound, "does not exist");
    EXPECT_OK(driver().DeleteSnapshot(id));
  }
  ExpectRefused(CopyRequest("c", "snap-x"), Code::kNotFound, "does not exist");
}

TEST_F(SnapshotRpc, SnapshotOutlivesItsVolumeAndTheProcess) {
  const std::string volume = Created();
  Write(StagedPath(volume) + "/file", "content");
  const std::string snapshot = Snapped("s", volume);
  EXPECT_OK(driver().Unstage(volume, Staging(volume)));
  EXPECT_OK(driver().Delete(volume));
  Restart(SIGKILL);
  const std::string copy = Cloned(CopyRequest("c", snapshot));
  EXPECT_EQ(ReadFile(StagedPath(copy) + "/file"), "content");
}

class GroupRpc : public SnapshotRpc {
 protected:
  Answer<csi::v1::CreateVolumeGroupSnapshotResponse> Group(const std::string& name,
                                                           const std::vector<std::string>& volumes) {
    csi::v1::CreateVolumeGroupSnapshotRequest request;
    request.set_name(name);
    request.mutable_source_volume_ids()->Assign(volumes.begin(), volumes.end());
    return driver().Send(request);
  }
  template <typename Request>
  static Request Named(const csi::v1::VolumeGroupSnapshot& group) {
    Request request;
    request.set_group_snapshot_id(group.group_snapshot_id());
    for (const auto& member : group.snapshots()) request.add_snapshot_ids(member.snapshot_id());
    return request;
  }
};

// Writes 1, 2, 3, … to the directories in turn. Each number is on disk before the next is written.
class Counter {
 public:
  explicit Counter(std::vector<std::string> directories)
      : directories_(std::move(directories)), thread_([this] { Run(); }) {}
  ~Counter() {
    stop_ = true;
    thread_.join();
  }
  void AwaitMore() const {
    for (const int until = count_ + 30; count_ < until;) std::this_thread::sleep_for(milliseconds(1));
  }

 private:
  void Run() {
    while (!stop_) {
      const int number = count_ + 1;
      Overwrite(directories_[static_cast<std::size_t>(number) % directories_.size()] + "/number", number);
      ::sync();
      count_ = number;
    }
  }
  // Without O_TRUNC: a snapshot before the write would have an empty file.
  static void Overwrite(const std::string& path, int number) {
    const std::string text = fmt::format("{:08}", number);
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    EXPECT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }

  const std::vector<std::string> directories_;
  std::atomic<int> count_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(GroupRpc, MembersAreOfTheSameInstant) {
  std::vector<std::string> volumes, paths;
  for (int i = 0; i < 3; ++i) {
    volumes.push_back(Created());
    paths.push_back(StagedPath(volumes.back()));
  }
  csi::v1::VolumeGroupSnapshot group;
  {
    const Counter counter(paths);
    counter.AwaitMore();
    const auto answer = Group("g", volumes);
    ASSERT_OK(answer);
    group = answer->group_snapshot();
    counter.AwaitMore();  // writes continue after the snapshot
  }
  EXPECT_TRUE(group.ready_to_use());
  std::vector<int> numbers;
  for (const auto& member : group.snapshots()) {
    const std::string copy = Cloned(CopyRequest("of " + member.snapshot_id(), member.snapshot_id()));
    numbers.push_back(std::atoi(ReadFile(StagedPath(copy) + "/number").c_str()));
  }
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  EXPECT_LE(*most - *least, 3) << PrintToString(numbers);
  EXPECT_OK(driver().Send(Named<csi::v1::DeleteVolumeGroupSnapshotRequest>(group)));
}

// The request of external-snapshotter for a VolumeGroupSnapshotClass of Kubernetes' own tests, with claims of 1 MiB.
TEST_F(GroupRpc, GroupOfSmallClaimsIsRestored) {
  csi::v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("groupsnapshot-1");
  *request.add_source_volume_ids() = Created(Mount(), kMiB);
  *request.add_source_volume_ids() = Created(Mount(), kMiB);
  auto& parameters = *request.mutable_parameters();
  parameters["deletionPolicy"] = "Delete";
  parameters["csi.storage.k8s.io/volumegroupsnapshot/name"] = "group";
  parameters["csi.storage.k8s.io/volumegroupsnapshot/namespace"] = "default";
  parameters["csi.storage.k8s.io/volumegroupsnapshotcontent/name"] = "groupsnapcontent-1";
  const auto taken = driver().Send(request);
  ASSERT_OK(taken);
  for (const csi::v1::Snapshot& member : taken->group_snapshot().snapshots()) {
    EXPECT_EQ(member.size_bytes(), kMiB);
    EXPECT_OK(driver().Send(CopyRequest("of-" + member.snapshot_id(), member.snapshot_id(), Mount(), kMiB)));
  }
  EXPECT_OK(driver().Send(Named<csi::v1::DeleteVolumeGroupSnapshotRequest>(taken->group_snapshot())));
}

TEST_F(GroupRpc, GroupIsCreatedFoundAndDeleted) {
  const std::string a = Created(), b = Created();
  const csi::v1::VolumeGroupSnapshot group = Group("g", {a, b})->group_snapshot();
  ASSERT_EQ(group.snapshots_size(), 2);
  EXPECT_EQ(group.snapshots(0).group_snapshot_id(), group.group_snapshot_id());
  EXPECT_EQ(Group("g", {b, a})->group_snapshot().DebugString(), group.DebugString());
  ExpectRefused([&] { return Group("g", {a}); }, Code::kAlreadyExists, "of other volumes");
  ExpectRefused([&] { return Group("h", {a, a}); }, Code::kInvalidArgument, "named twice");
  ExpectRefused([&] { return Group("h", {a, "x"}); }, Code::kNotFound, "does not exist");
  ExpectRefused([&] { return driver().DeleteSnapshot(group.snapshots(0).snapshot_id()); }, Code::kInvalidArgument,
                "is a member");
  auto get = Named<csi::v1::GetVolumeGroupSnapshotRequest>(group);
  EXPECT_EQ(driver().Send(get)->group_snapshot().DebugString(), group.DebugString());
  get.add_snapshot_ids("snap-x");
  ExpectRefused(get, Code::kInvalidArgument, "not the members");
  EXPECT_EQ(ListSnapshots()->entries_size(), 2);
  const auto remove = Named<csi::v1::DeleteVolumeGroupSnapshotRequest>(group);
  EXPECT_OK(driver().Send(remove));
  EXPECT_OK(driver().Send(remove));
  EXPECT_EQ(ListSnapshots()->entries_size(), 0);
}

}  // namespace
}  // namespace mooring::testing
