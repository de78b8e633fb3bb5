// Volumes without a device: directories and memory.
#include "tests/unit/node/node_volumes_fixture.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NodePlainTest : public NodeVolumesTest {
 protected:
  static constexpr char kMemory[] = "vol-00000000000000000000000000000001";
  static constexpr char kDirectory[] = "vol-00000000000000000000000000000002";

  NodePlainTest() {
    source_.Put({.id = kMemory, .kind = BackendKind::kTmpfs, .bytes = 64 * kMebi, .fs_type = "tmpfs"});
    PutDirectory();
  }
  void PutDirectory() {  // anew: another inode
    const PathInfo place = mounter_.With([](FakeKernel& kernel) {
      kernel.RemovePath(PathOfDirectory());
      kernel.AddDirectory(PathOfDirectory());
      return kernel.Find(PathOfDirectory()).value();
    });
    source_.Put({.id = kDirectory,
                 .kind = BackendKind::kDirectory,
                 .path = PathOfDirectory(),
                 .inode = place.inode,
                 .bytes = 64 * kMebi,
                 .fs_type = "directory"});
  }
  static std::string PathOfDirectory() { return std::string("/dirs/") + kDirectory; }
  std::vector<FilesystemOption> OptionsAt(const std::string& path) {
    return mounter_.With([&](FakeKernel& kernel) { return kernel.MountsAt(path).at(0).options; });
  }
  std::vector<FakeMount> MountsAt(const std::string& path) {
    return mounter_.With([&](FakeKernel& kernel) { return kernel.MountsAt(path); });
  }
};

TEST_F(NodePlainTest, MemoryIsMountedOnceAndThenBound) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kMemory)));
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), kMemory)));
  EXPECT_THAT(mounter_.Calls("Mount"), SizeIs(1));
  EXPECT_THAT(mounter_.Calls("Bind"), ElementsAre("Bind /staging/b /staging/a"));
  EXPECT_EQ(MountsAt("/staging/a").at(0).info.device, MountsAt("/staging/b").at(0).info.device);
}

TEST_F(NodePlainTest, MemoryIsFoundWithoutRecordByItsTarget) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kMemory)));
  ASSERT_OK(Publish(PublishAt("/pods/t", MountCapability(), "/staging/a", kMemory)));
  ASSERT_OK(Unstage("/staging/a", kMemory));
  LoseRecords();
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), kMemory)));
  EXPECT_THAT(mounter_.Calls("Mount"), SizeIs(1));
}

TEST_F(NodePlainTest, MemoryHasItsSizeAndOneInodePerPage) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kMemory)));
  EXPECT_THAT(OptionsAt("/staging/a"),
              ElementsAre(FilesystemOption{"size", "67108864"}, FilesystemOption{"nr_inodes", "16384"},
                          FilesystemOption{"mode", "0755"}, FilesystemOption{"huge", "never"}));
}

TEST_F(NodePlainTest, ExpandChangesMountOfMemory) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kMemory)));
  NodeVolume volume = source_.Find(kMemory).value();
  volume.bytes = 128 * kMebi;
  source_.Put(volume);
  ASSERT_OK(volumes_->Expand({kMemory, "/staging/a"}, Call::WithLongestWait()));
  EXPECT_EQ(OptionsAt("/staging/a").at(0).value, "134217728");
  EXPECT_THAT(mounter_.Calls("Grow"), IsEmpty());
}

TEST_F(NodePlainTest, DirectoryIsBoundAndNeverGrown) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kDirectory)));
  EXPECT_THAT(mounter_.Calls("Bind"), ElementsAre(std::string("Bind /staging/a ") + PathOfDirectory()));
  ASSERT_OK(volumes_->Expand({kDirectory, "/staging/a"}, Call::WithLongestWait()));
  EXPECT_THAT(mounter_.Calls("Grow"), IsEmpty());
  EXPECT_THAT(mounter_.Calls("Change"), IsEmpty());
  EXPECT_THAT(mounter_.Calls("FindLoops"), IsEmpty());
}

TEST_F(NodePlainTest, DirectoryWithSameNameAndOtherInodeIsNotTheVolume) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kDirectory)));
  PutDirectory();
  EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(), kDirectory)),
              FailsWith(StatusCode::kFailedPrecondition, "is a mount of"));
  EXPECT_THAT(Publish(PublishAt("/pods/t", MountCapability(), "/staging/a", kDirectory)),
              FailsWith(StatusCode::kFailedPrecondition, "not staged"));
  EXPECT_OK(Unstage("/staging/a", kDirectory));
}

TEST_F(NodePlainTest, ReconcileAdoptsMountsWithoutRecord) {
  ASSERT_OK(Stage(StageAt("/staging/a", MountCapability(), kDirectory)));
  ASSERT_OK(Stage(StageAt("/staging/b", MountCapability(), kMemory)));
  LoseRecords();
  Restart();
  ASSERT_OK(volumes_->Reconcile());
  EXPECT_THAT(AllRecords(), SizeIs(2));
  ASSERT_OK(Unstage("/staging/a", kDirectory));
  ASSERT_OK(Unstage("/staging/b", kMemory));
  EXPECT_THAT(AllRecords(), IsEmpty());
  EXPECT_THAT(MountsAt("/staging/a"), IsEmpty());
}

TEST_F(NodePlainTest, BlockAccessAndFilesystemOptionsAreRefused) {
  for (const char* id : {kMemory, kDirectory}) {
    EXPECT_THAT(Stage(StageAt("/staging/a", BlockCapability(), id)), FailsWith(StatusCode::kInvalidArgument, "block"));
    EXPECT_THAT(Stage(StageAt("/staging/a", MountCapability(AccessMode::kSingleNodeWriter, "xfs"), id)),
                FailsWith(StatusCode::kInvalidArgument, "leaves no choice"));
    EXPECT_THAT(Stage(StageAt("/staging/a", WithFlags(MountCapability(), {"commit=5"}), id)),
                FailsWith(StatusCode::kInvalidArgument, "'commit'"));
  }
  EXPECT_THAT(AllRecords(), IsEmpty());
}

}  // namespace
}  // namespace mooring::testing
