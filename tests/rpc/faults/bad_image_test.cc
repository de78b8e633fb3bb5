// Missing or failing tools, and images that other programs have changed.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class BadImage : public RpcTest {
 protected:
  std::string Formatted(const VolumeCapability& capability = Mount()) {
    const std::string id = Staged(capability);
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    ExpectNoLoops();
    return id;
  }

  void RefusedStage(const std::string& id, Code code, const std::string& piece,
                    const VolumeCapability& capability = Mount(),
                    const std::source_location& where = std::source_location::current()) {
    const std::string staging = Staging(id);
    ExpectRefused(StageRequest(id, staging, capability), code, piece, where);
  }
};

TEST_F(BadImage, MissingMkfsIsNamedWithItsPackage) {
  RestartWithPath("/nonexistent");
  RefusedStage(Created(Mount("ext4")), Code::kFailedPrecondition, "e2fsprogs", Mount("ext4"));
  RefusedStage(Created(Mount("xfs"), kXfsBytes), Code::kFailedPrecondition, "xfsprogs", Mount("xfs"));
  EXPECT_OK(driver().Stage(Created(Block()), Staging("b"), Block())) << "needs no mkfs";
}

TEST_F(BadImage, OutputOfAFailedMkfsIsQuoted) {
  RestartWithPath(FailingMkfs());
  const std::string id = Created();
  RefusedStage(id, Code::kInternal, "the disk is on fire");
  RestartWithPath("");
  EXPECT_OK(driver().Stage(id, Staging(id))) << "the failed mkfs has not damaged the volume";
}

// mkfs.btrfs ends with 0 although the write of its superblock failed. The next stage formats the volume.
TEST_F(BadImage, AnMkfsThatHasMadeNothingIsNotBelieved) {
  RestartWithPath(Wrapper("mkfs.ext4", "eval image=\\${$#}; printf data > \"$image\"; exit 0"));
  const std::string id = Created();
  RefusedStage(id, Code::kInternal, "its writes failed");
  EXPECT_EQ(ReadFile(Image(id)).find("data"), std::string::npos);
  RestartWithPath("");
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(BadImage, StageRefusesATruncatedImage) {
  for (const std::int64_t left : {kVolumeBytes / 2, std::int64_t{4096}, std::int64_t{0}}) {
    for (const auto& [id, capability] :
         {std::pair(Formatted(), Mount()), std::pair(Created(), Mount()), std::pair(Created(Block()), Block())}) {
      ASSERT_EQ(::truncate(Image(id).c_str(), left), 0);
      RefusedStage(id, Code::kFailedPrecondition, "cut short", capability);
    }
  }
}

TEST_F(BadImage, MissingImageIsNamed) {
  const std::string id = Formatted();
  const std::string kept = dir() / "kept";
  fs::rename(Image(id), kept);
  RefusedStage(id, Code::kInternal, Image(id));
  ExpectRefused([&] { return driver().Grow(id, 2 * kVolumeBytes); }, Code::kInternal, "put it back");
  fs::rename(kept, Image(id));
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(BadImage, StageRefusesASymlinkInPlaceOfAnImage) {
  const std::string id = Formatted();
  const std::string kept = dir() / "kept";
  fs::rename(Image(id), kept);
  fs::create_symlink(kept, Image(id));
  RefusedStage(id, Code::kInternal, "no regular file");
  fs::remove(Image(id));
  fs::rename(kept, Image(id));
}

// rsync and most restores rename a new file over the old one, which the volume goes on to use.
TEST_F(BadImage, StageRefusesAnImageThatWasPutInPlaceOfTheOneInUse) {
  for (const VolumeCapability& capability : {Mount(), Block()}) {
    const std::string id = Staged(capability);
    const std::string used = dir() / "used";
    fs::rename(Image(id), used);
    fs::copy_file(used, Image(id));
    ExpectRefused(StageRequest(id, Staging(id, "second"), capability), Code::kFailedPrecondition,
                  Image(id) + "' is another file now");
    EXPECT_EQ(LoopsHere().size(), 1U);
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    EXPECT_OK(driver().Stage(id, Staging(id, "second"), capability)) << "it is not in use any more";
    EXPECT_OK(driver().Unstage(id, Staging(id, "second")));
    fs::remove(used);
  }
}

TEST_F(BadImage, StageRefusesForeignContent) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"head -c 2000000 /dev/urandom | dd of=IMAGE conv=notrunc status=none", "unknown data"},
      {"mkswap -q IMAGE 2>/dev/null", "swap"},
      {"mke2fs -q -F -t ext2 IMAGE", "ext2"},
      {"printf 'data at the end' | dd of=IMAGE bs=1 seek=67108000 conv=notrunc status=none", "unknown data"},
  };
  for (const auto& [command, found] : cases) {
    SCOPED_TRACE(command);
    const std::string id = Created();
    std::string line = command;
    line.replace(line.find("IMAGE"), 5, Image(id));
    ASSERT_EQ(Shell(line), 0);
    RefusedStage(id, Code::kFailedPrecondition, found);
    RefusedStage(id, Code::kFailedPrecondition, found, Mount("xfs"));
  }
}

// A partition table of DOS with a single partition.
TEST_F(BadImage, StageRefusesAPartitionTable) {
  const std::string id = Created();
  std::string sector(512, '\0');
  constexpr unsigned char kPartition[] = {0x80, 0, 1, 1, 0x83, 0xFE, 0x3F, 0, 0, 8, 0, 0, 0, 0, 1, 0};
  std::copy(std::begin(kPartition), std::end(kPartition), sector.begin() + 446);
  sector[510] = '\x55';
  sector[511] = '\xAA';
  ASSERT_EQ(TryWrite(Image(id), sector), 0);
  RefusedStage(id, Code::kFailedPrecondition, "dos partition table");
}

TEST_F(BadImage, StageKeepsAnotherFilesystem) {
  const std::string id = Created(Mount("xfs"), kXfsBytes);
  ASSERT_EQ(Shell("mkfs.ext4 -q -F " + Image(id)), 0);
  RefusedStage(id, Code::kFailedPrecondition, "not formatted again", Mount("xfs"));
}

// ext4 does not use its first 1,024 bytes, so the superblock of an xfs fits there. libblkid reports that as ambivalent.
TEST_F(BadImage, StageRefusesTwoFilesystemsInAnImage) {
  const std::string id = Formatted();
  const std::string xfs = dir() / "xfs";
  ASSERT_EQ(Shell("truncate -s 320M " + xfs + " && mkfs.xfs -q " + xfs), 0);
  ASSERT_EQ(Shell("dd if=" + xfs + " of=" + Image(id) + " bs=512 count=1 conv=notrunc status=none"), 0);
  const std::string before = RunOutput("sha256sum " + Image(id));
  RefusedStage(id, Code::kFailedPrecondition, "signatures of several filesystems");
  RefusedStage(id, Code::kFailedPrecondition, "signatures of several filesystems", Mount("ext4"));
  EXPECT_EQ(RunOutput("sha256sum " + Image(id)), before);
}

TEST_F(BadImage, StageRefusesAFilesystemThatCannotBeRepaired) {
  const std::string id = Formatted();
  // e2fsck -p cannot repair an ext4 without a root directory.
  ASSERT_EQ(Shell("debugfs -w -R 'clri <2>' " + Image(id) + " 2>/dev/null"), 0);
  ASSERT_EQ(Shell("debugfs -w -R 'ssv state 2' " + Image(id) + " 2>/dev/null"), 0);
  EXPECT_THAT(driver().Stage(id, Staging(id)), FailsWith(Code::kFailedPrecondition, "e2fsck -f"));
  EXPECT_FALSE(MountAt(Staging(id)));
  EXPECT_TRUE(LoopsHere().empty());
}

TEST_F(BadImage, StageRepairsSmallErrors) {
  const std::string id = Formatted();
  ASSERT_EQ(Shell("debugfs -w -R 'ssv free_blocks_count 1' " + Image(id) + " 2>/dev/null"), 0);
  ASSERT_EQ(Shell("debugfs -w -R 'ssv state 2' " + Image(id) + " 2>/dev/null"), 0);
  EXPECT_OK(driver().Stage(id, Staging(id)));
}

TEST_F(BadImage, ForeignLoopDeviceIsNamed) {
  const std::string id = Formatted();
  const std::string loop = AttachLoop("-o 4096 " + Image(id));
  RefusedStage(id, Code::kFailedPrecondition, loop);
  ExpectRefused([&] { return driver().Delete(id); }, Code::kFailedPrecondition, loop);
  EXPECT_EQ(Shell("losetup -d " + loop), 0);
  ExpectNoLoops();
}

}  // namespace
}  // namespace mooring::testing
