// Snapshots, copies and groups of them over the socket, on real filesystems: what they hold, beside what they are of.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kWriter = AccessMode::SINGLE_NODE_WRITER;

class SnapshotRpc : public RpcTest {
 protected:
  Answer<csi::v1::CreateSnapshotResponse> Snap(const std::string& name, const std::string& volume) {
    csi::v1::CreateSnapshotRequest request;
    request.set_name(name);
    request.set_source_volume_id(volume);
    return driver().Send(request);
  }
  std::string Snapped(const std::string& name, const std::string& volume) {
    const auto answer = Snap(name, volume);
    EXPECT_OK(answer);
    return answer->snapshot().snapshot_id();
  }
  Answer<csi::v1::DeleteSnapshotResponse> DeleteSnapshot(const std::string& id) {
    csi::v1::DeleteSnapshotRequest request;
    request.set_snapshot_id(id);
    return driver().Send(request);
  }
  Answer<csi::v1::ListSnapshotsResponse> ListSnapshots(const std::string& token = "", int most = 0) {
    csi::v1::ListSnapshotsRequest request;
    request.set_starting_token(token);
    request.set_max_entries(most);
    return driver().Send(request);
  }

  static csi::v1::CreateVolumeRequest CloneRequest(const std::string& name, const std::string& source,
                                                   const VolumeCapability& capability = Mount("", kWriter),
                                                   std::int64_t bytes = 0) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(name);
    *request.add_volume_capabilities() = capability;
    if (bytes != 0) request.mutable_capacity_range()->set_required_bytes(bytes);
    auto& content = *request.mutable_volume_content_source();
    if (source.starts_with("snap-")) {
      content.mutable_snapshot()->set_snapshot_id(source);
    } else {
      content.mutable_volume()->set_volume_id(source);
    }
    return request;
  }
  std::string Cloned(const csi::v1::CreateVolumeRequest& request) {
    const auto answer = driver().Send(request);
    EXPECT_OK(answer);
    EXPECT_EQ(answer->volume().content_source().DebugString(), request.volume_content_source().DebugString());
    return answer->volume().volume_id();
  }

  // Staged, and the path where it is.
  std::string Staged(const std::string& volume, const VolumeCapability& capability = Mount("", kWriter)) {
    const std::string path = Staging(volume);
    EXPECT_OK(driver().Stage(volume, path, capability));
    return path;
  }
  static void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text << std::flush; }
  static std::string Uuid(const std::string& image) { return RunOutput("blkid -p -o value -s UUID " + image); }
};

class SnapshotsOf : public SnapshotRpc, public ::testing::WithParamInterface<const char*> {
 protected:
  VolumeCapability Use() const { return Mount(GetParam(), kWriter); }
  std::int64_t Size() const { return GetParam() == std::string("xfs") ? kXfsBytes : kVolumeBytes; }
};

TEST_P(SnapshotsOf, ACopyIsMountedBesideItsSourceAndGrownToTheSizeAskedFor) {
  const std::string volume = Created(Use(), Size());
  const std::string source = Staged(volume, Use());
  Write(source + "/file", "before");
  const std::string snapshot = Snapped("s", volume);
  Write(source + "/file", "after");
  const std::string of_snapshot = Cloned(CloneRequest("a", snapshot, Use(), 2 * Size()));
  const std::string of_volume = Cloned(CloneRequest("b", volume, Use()));
  EXPECT_EQ(ReadFile(Staged(of_snapshot, Use()) + "/file"), "before");
  EXPECT_EQ(ReadFile(Staged(of_volume, Use()) + "/file"), "after");
  EXPECT_GT(MountedBytes(Staging(of_snapshot)), MountedBytes(source) * 3 / 2);
  const std::set<std::string> uuids = {Uuid(Image(volume)), Uuid(Image(of_snapshot)), Uuid(Image(of_volume))};
  EXPECT_THAT(uuids, SizeIs(3));
  Write(Staging(of_snapshot) + "/file", "its own");
  EXPECT_EQ(ReadFile(source + "/file"), "after");
  EXPECT_OK(DeleteSnapshot(snapshot));
}

TEST_P(SnapshotsOf, AVolumeThatWasNeverStagedCanBeCopied) {
  const std::string volume = Created(Use(), Size());
  const std::string snapshot = Snapped("s", volume);
  for (const std::string& source : {volume, snapshot}) {
    const std::string copy = Cloned(CloneRequest("of " + source, source, Use()));
    Write(Staged(copy, Use()) + "/file", "x");
  }
  EXPECT_OK(DeleteSnapshot(snapshot));
}

INSTANTIATE_TEST_SUITE_P(Filesystem, SnapshotsOf, ::testing::Values("ext4", "xfs"),
                         [](const auto& fs_type) { return std::string(fs_type.param); });

TEST_F(SnapshotRpc, ABlockVolumeIsCopiedByteForByte) {
  const std::string volume = Created(Block(), kVolumeBytes);
  ASSERT_EQ(Shell("head -c 3000000 /dev/urandom | dd of=" + Image(volume) + " conv=notrunc status=none"), 0);
  const std::string snapshot = Snapped("s", volume);
  const std::string copy = Cloned(CloneRequest("c", snapshot, Block(), 2 * kVolumeBytes));
  EXPECT_EQ(std::filesystem::file_size(Image(copy)), 2 * kVolumeBytes);
  EXPECT_EQ(Shell("cmp -n " + std::to_string(kVolumeBytes) + " " + Image(volume) + " " + Image(copy)), 0);
  EXPECT_OK(DeleteSnapshot(snapshot));
}

TEST_F(SnapshotRpc, ASnapshotSaysWhatItIs) {
  const std::string volume = Created();
  const auto before = ::time(nullptr);
  const csi::v1::Snapshot snapshot = Snap("s", volume)->snapshot();
  EXPECT_EQ(snapshot.size_bytes(), kVolumeBytes);
  EXPECT_EQ(snapshot.source_volume_id(), volume);
  EXPECT_TRUE(snapshot.ready_to_use());
  EXPECT_GE(snapshot.creation_time().seconds(), before);
  csi::v1::GetSnapshotRequest get;
  get.set_snapshot_id(snapshot.snapshot_id());
  EXPECT_EQ(driver().Send(get)->snapshot().DebugString(), snapshot.DebugString());
  EXPECT_EQ(Snap("s", volume)->snapshot().DebugString(), snapshot.DebugString());
  EXPECT_EQ(ListSnapshots()->entries(0).snapshot().DebugString(), snapshot.DebugString());
  EXPECT_OK(DeleteSnapshot(snapshot.snapshot_id()));
  EXPECT_THAT(driver().Send(get), FailsWith(Code::kNotFound, "does not exist"));
}

// Kubernetes restores into no claim that is smaller than size_bytes, and the volume's own claim may be smaller than the
// volume.
TEST_F(SnapshotRpc, ASnapshotIsRestoredIntoTheSizeItsVolumeWasAskedWith) {
  for (const std::int64_t asked : {kMiB, kVolumeBytes + 1}) {
    const std::string name = "v" + std::to_string(asked);
    const auto made = driver().Create(name, Mount(), asked);
    ASSERT_OK(made);
    const std::int64_t bytes = made->volume().capacity_bytes();
    EXPECT_GT(bytes, asked);
    const csi::v1::Snapshot snapshot = Snap("of-" + name, made->volume().volume_id())->snapshot();
    EXPECT_EQ(snapshot.size_bytes(), asked);
    auto restore = CloneRequest("restored-" + name, snapshot.snapshot_id(), Mount(), snapshot.size_bytes());
    EXPECT_EQ(driver().Send(restore)->volume().capacity_bytes(), bytes) << "all that the snapshot has";
    restore.set_name("limited-" + name);
    restore.mutable_capacity_range()->set_limit_bytes(bytes - 1);
    ExpectRefused([&] { return driver().Send(restore); }, Code::kOutOfRange, "raise limit_bytes");
    Restart(SIGTERM);
    EXPECT_EQ(Snap("of-" + name, made->volume().volume_id())->snapshot().size_bytes(), asked);
    EXPECT_OK(DeleteSnapshot(snapshot.snapshot_id()));
  }
}

TEST_F(SnapshotRpc, TheRestoreSizeGrowsWithTheVolume) {
  const std::string volume = Created(Mount(), kMiB);
  ASSERT_OK(driver().Grow(volume, kVolumeBytes + 1));
  const csi::v1::Snapshot grown = Snap("s", volume)->snapshot();
  EXPECT_EQ(grown.size_bytes(), kVolumeBytes + 1);
  EXPECT_OK(DeleteSnapshot(grown.snapshot_id()));
}

TEST_F(SnapshotRpc, PagesAndForeignTokens) {
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
  for (const std::string& id : ids) EXPECT_OK(DeleteSnapshot(id));
}

TEST_F(SnapshotRpc, WhatIsNotThereIsSaidSo) {
  for (const std::string& id : StrangeIds()) {
    ExpectRefused([&] { return Snap("s", id); }, Code::kNotFound, "does not exist");
    ExpectRefused([&] { return driver().Send(CloneRequest("c", id)); }, Code::kNotFound, "does not exist");
    EXPECT_OK(DeleteSnapshot(id));
  }
  ExpectRefused([&] { return driver().Send(CloneRequest("c", "snap-x")); }, Code::kNotFound, "does not exist");
}

TEST_F(SnapshotRpc, ASnapshotOutlivesItsVolumeAndTheProcess) {
  const std::string volume = Created();
  Write(Staged(volume) + "/file", "content");
  const std::string snapshot = Snapped("s", volume);
  EXPECT_OK(driver().Unstage(volume, Staging(volume)));
  EXPECT_OK(driver().Delete(volume));
  Restart(SIGKILL);
  const std::string copy = Cloned(CloneRequest("c", snapshot));
  EXPECT_EQ(ReadFile(Staged(copy) + "/file"), "content");
  EXPECT_OK(DeleteSnapshot(snapshot));
}

// At whatever point of the call the process ends: the next one takes it up, and nobody is left frozen.
TEST_F(SnapshotRpc, KilledInTheMiddleTheSameCallSucceedsAndTheVolumeGoesOn) {
  const std::string volume = Created();
  const std::string path = Staged(volume);
  std::ofstream(path + "/data") << std::string(20'000'000, 'x') << std::flush;
  for (int milliseconds = 0; milliseconds < 60; milliseconds += 10) {
    std::thread call([&] { (void)Snap("s", volume); });
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    plugin().Kill();
    call.join();
    Start();
    Write(path + "/alive", std::to_string(milliseconds));
    const auto there = ListSnapshots();
    EXPECT_LE(there->entries_size(), 1);
    const std::string snapshot = Snapped("s", volume);
    EXPECT_EQ(ListSnapshots()->entries_size(), 1);
    EXPECT_OK(DeleteSnapshot(snapshot));
    const std::filesystem::directory_iterator files(state_dir() + "/volumes");
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << milliseconds;
  }
}

// Groups

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

// 1, 2, 3, … to one directory after another, each on disk before the next.
class Counter {
 public:
  explicit Counter(std::vector<std::string> directories)
      : directories_(std::move(directories)), thread_([this] { Run(); }) {}
  ~Counter() {
    stop_ = true;
    thread_.join();
  }
  void AwaitMore() const {
    for (const int until = count_ + 30; count_ < until;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  void Run() {
    while (!stop_) {
      const int number = count_ + 1;
      std::ofstream(directories_[static_cast<std::size_t>(number) % directories_.size()] + "/number") << number;
      ::sync();
      count_ = number;
    }
  }
  const std::vector<std::string> directories_;
  std::atomic<int> count_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(GroupRpc, TheMembersAreOfOneInstantWhileSomebodyWrites) {
  std::vector<std::string> volumes, paths;
  for (int i = 0; i < 3; ++i) {
    volumes.push_back(Created());
    paths.push_back(Staged(volumes.back()));
  }
  csi::v1::VolumeGroupSnapshot group;
  {
    const Counter counter(paths);
    counter.AwaitMore();
    const auto answer = Group("g", volumes);
    ASSERT_OK(answer);
    group = answer->group_snapshot();
    counter.AwaitMore();  // it goes on
  }
  EXPECT_TRUE(group.ready_to_use());
  std::vector<int> numbers;
  for (const auto& member : group.snapshots()) {
    const std::string copy = Cloned(CloneRequest("of " + member.snapshot_id(), member.snapshot_id()));
    numbers.push_back(std::atoi(ReadFile(Staged(copy) + "/number").c_str()));
  }
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  EXPECT_LE(*most - *least, 3) << ::testing::PrintToString(numbers);
  EXPECT_OK(driver().Send(Named<csi::v1::DeleteVolumeGroupSnapshotRequest>(group)));
}

// As external-snapshotter sends it for a VolumeGroupSnapshotClass of Kubernetes' own tests, whose claims are of 1 MiB.
TEST_F(GroupRpc, AGroupOfSmallClaimsIsMadeByAClassWithDeletionPolicyAndRestored) {
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
    EXPECT_OK(driver().Send(CloneRequest("of-" + member.snapshot_id(), member.snapshot_id(), Mount(), kMiB)));
  }
  EXPECT_OK(driver().Send(Named<csi::v1::DeleteVolumeGroupSnapshotRequest>(taken->group_snapshot())));
}

TEST_F(GroupRpc, AGroupIsMadeFoundAndDeletedWhole) {
  const std::string a = Created(), b = Created();
  const csi::v1::VolumeGroupSnapshot group = Group("g", {a, b})->group_snapshot();
  ASSERT_EQ(group.snapshots_size(), 2);
  EXPECT_EQ(group.snapshots(0).group_snapshot_id(), group.group_snapshot_id());
  EXPECT_EQ(Group("g", {b, a})->group_snapshot().DebugString(), group.DebugString());
  ExpectRefused([&] { return Group("g", {a}); }, Code::kAlreadyExists, "of other volumes");
  ExpectRefused([&] { return Group("h", {a, a}); }, Code::kInvalidArgument, "named twice");
  ExpectRefused([&] { return Group("h", {a, "x"}); }, Code::kNotFound, "does not exist");
  ExpectRefused([&] { return DeleteSnapshot(group.snapshots(0).snapshot_id()); }, Code::kInvalidArgument,
                "is a member");
  auto get = Named<csi::v1::GetVolumeGroupSnapshotRequest>(group);
  EXPECT_EQ(driver().Send(get)->group_snapshot().DebugString(), group.DebugString());
  get.add_snapshot_ids("snap-x");
  ExpectRefused([&] { return driver().Send(get); }, Code::kInvalidArgument, "not the members");
  EXPECT_EQ(ListSnapshots()->entries_size(), 2);
  const auto remove = Named<csi::v1::DeleteVolumeGroupSnapshotRequest>(group);
  EXPECT_OK(driver().Send(remove));
  EXPECT_OK(driver().Send(remove));
  EXPECT_EQ(ListSnapshots()->entries_size(), 0);
}

}  // namespace
}  // namespace mooring::testing
