// Copies of block devices whose pages change while the kernel writes them, as a database changes its mapped pages. On a
// filesystem with checksums, a page that changes under way would get a checksum that does not fit.
#include <sys/mman.h>

#include "tests/kernel/image/copy_test.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kBytes = std::size_t{16} << 20U;

// Changes all pages of a mapped device, again and again, and has the kernel write them meanwhile.
class PageChanger {
 public:
  explicit PageChanger(const std::string& device) : fd_(::open(device.c_str(), O_RDWR | O_CLOEXEC)) {
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(memory, MAP_FAILED) << device;
    memory_ = static_cast<char*>(memory);
    changes_ = std::thread([this] {
      for (unsigned round = 1; !stopping_; ++round) {
        for (std::size_t at = 0; at < kBytes && !stopping_; at += 64) memory_[at] = static_cast<char>(round + at / 64);
      }
    });
    writes_ = std::thread([this] {
      while (!stopping_) failed_ = failed_ || ::fdatasync(fd_.get()) != 0;
    });
  }
  PageChanger(const PageChanger&) = delete;
  PageChanger& operator=(const PageChanger&) = delete;
  ~PageChanger() {
    stopping_ = true;
    changes_.join();
    writes_.join();
    ::munmap(memory_, kBytes);
    EXPECT_FALSE(failed_) << "the kernel could not write";
  }

 private:
  UniqueFd fd_;
  char* memory_ = nullptr;
  std::atomic<bool> stopping_{false}, failed_{false};
  std::thread changes_, writes_;
};

// The errno of reading all of the file from its disk; 0: all of it can be read.
int ReadFromDisk(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fsync(fd.get());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> block(256 << 10);
  for (off_t at = 0; at < static_cast<off_t>(kBytes); at += static_cast<off_t>(block.size())) {
    if (::pread(fd.get(), block.data(), block.size(), at) < 0) return errno;
  }
  return 0;
}

class ChangingCopyTest : public CopyTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ChangingCopyTest, ImageAndCopiesCanBeReadInFull) {
  const bool shares = std::string(GetParam()) != "ext4";
  MakePool(GetParam());
  Sparse("pool/v.img", kBytes);
  const auto loop = mounter_.AttachLoop({.backing_file = Pooled("v"), .label = "mooring-kernel-test"});
  ASSERT_OK(loop);
  {
    const PageChanger task(loop->device);
    for (int round = 0; round < 6; ++round) {
      EXPECT_EQ(ReadFromDisk(Pooled("v")), 0) << "round " << round;
      if (!shares) continue;  // a copy needs a pause of the writer
      const std::string name = "copy-" + std::to_string(round);
      ASSERT_OK(mounter_.Copy({CopyOf("v", name)}));
      EXPECT_EQ(ReadFromDisk(Pooled(name)), 0) << "round " << round;
    }
  }
  ASSERT_OK(mounter_.Copy({CopyOf("v", "last")}));
  ASSERT_OK(mounter_.DetachLoop(*loop));
  ASSERT_TRUE(NoLoopOver(Pooled("v")));
  EXPECT_EQ(ReadFromDisk(Pooled("v")), 0);
  EXPECT_EQ(Tool(fmt::format("cmp {} {}", Pooled("last"), Pooled("v"))), 0);
}

INSTANTIATE_TEST_SUITE_P(Pools, ChangingCopyTest, ::testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& pool) { return std::string(pool.param); });

}  // namespace
}  // namespace mooring::testing
