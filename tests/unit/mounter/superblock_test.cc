// Superblocks that make no sense, without mkfs. tests/kernel/image has the tests with real filesystems.
#include <fcntl.h>
#include <unistd.h>

#include "mounter/superblock/btrfs_super.h"
#include "mounter/superblock/crc32c.h"
#include "mounter/superblock/ext4_super.h"
#include "mounter/superblock/raw_super.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

class SuperblockTest : public ::testing::Test {
 protected:
  // A file of 1 MiB.
  void Write(std::uint64_t place, const std::string& super) {
    ASSERT_EQ(::ftruncate(file_.get(), 1 << 20), 0);
    ASSERT_OK(WriteSuper(file_.get(), path_, place, super));
  }

  const TempDir directory_;
  const std::string path_ = std::string(directory_.path()) + "/image";
  const UniqueFd file_{::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
};

TEST_F(SuperblockTest, AnExt4LargerThanItsFileGetsNoNewUuid) {
  std::string super(1024, '\0');
  StoreLittle(super, 0x4, std::uint32_t{0xFFFFFFFF});  // blocks
  StoreLittle(super, 0x18, std::uint32_t{2});          // of 4 KiB
  StoreLittle(super, 0x20, std::uint32_t{1});          // blocks of a group
  super.replace(0x38, 2, "\x53\xEF");
  StoreLittle(super, 0x60, std::uint32_t{0x2000});  // metadata_csum_seed
  StoreLittle(super, 0x64, std::uint32_t{0x401});   // metadata_csum, sparse_super
  Write(1024, super);
  EXPECT_THAT(RenewFreshExt4(file_, path_),
              FailsWith(StatusCode::kFailedPrecondition, "4294967295 blocks, more than its file"));
}

// Such a one is for e2fsck to refuse. Here it must only come to an end: a tenant may have written it.
TEST_F(SuperblockTest, AnExt4WithoutBlocksIsNotTakenForAFullGroup) {
  for (const std::uint32_t log_block_size : {0U, 2U}) {
    for (const std::uint64_t blocks : {0U, 1U}) {
      Ext4Super super;
      super.log_block_size = log_block_size;
      super.bytes = blocks << (10 + log_block_size);
      super.blocks_per_group = 1;
      EXPECT_TRUE(CanGrowTo(super, 1U << 20U)) << log_block_size << " " << blocks;
    }
  }
}

TEST_F(SuperblockTest, ABtrfsThatEndsBeforeItsSuperblockGetsNoNewUuid) {
  std::string super(4096, '\0');
  StoreLittle(super, 48, std::uint64_t{65536});  // the place
  super.replace(64, 8, "_BHRfS_M");
  StoreLittle(super, 112, std::uint64_t{65536});  // bytes of the filesystem
  StoreLittle(super, 136, std::uint64_t{1});      // devices
  StoreLittle(super, 0, Crc32c(std::string_view(super).substr(32)));
  Write(65536, super);
  EXPECT_THAT(RenewBtrfs(path_), FailsWith(StatusCode::kFailedPrecondition, "ends before its superblock"));
}

}  // namespace
}  // namespace mooring::testing
