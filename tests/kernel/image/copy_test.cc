// Copies of images during writes: clean without a replay, of one instant, and nothing stays frozen afterwards.
#include "tests/kernel/image/copy_test.h"

#include <algorithm>
#include <ostream>

#include "tests/support/hold_image.h"

namespace mooring::testing {
namespace {

struct Kind {
  const char* pool;    // the filesystem that the images lie on
  const char* volume;  // the filesystem in the images
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.volume << " on " << kind.pool; }

class MountedCopyTest : public CopyTest, public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override { MakePool(GetParam().pool); }
  static std::string type() { return GetParam().volume; }
};

TEST_P(MountedCopyTest, IsCleanAndOfAnInstantDuringTheCall) {
  const std::string place = Mounted("v", type());
  SequenceWriter writer({place});
  writer.AwaitNext();
  const std::uint64_t before = writer.written();
  const auto start = Clock::now();
  ASSERT_OK(mounter_.Copy({CopyOf("v", "snap")}));
  const auto took = Clock::now() - start;
  const std::uint64_t after = writer.begun();
  writer.AwaitNext();
  writer.Stop();
  EXPECT_EQ(writer.error(), 0);
  EXPECT_LE(writer.longest(), took + std::chrono::seconds(2));  // the machine may be busy
  if (type() == "ext4") {
    EXPECT_TRUE(IsClean(Pooled("snap"), "ext4"));
    EXPECT_NE(Tool("dumpe2fs -h " + Pooled("snap") + " 2>/dev/null | grep -q needs_recovery"), 0) << "to be replayed";
  }
  ASSERT_OK(mounter_.Copy({CopyOf("snap", "clone", type())}));  // beside the source
  const std::uint64_t number = NumberIn(MountCopy("clone", type()));
  EXPECT_GE(number, before);
  EXPECT_LE(number, after);
  Unmount("clone");
  EXPECT_TRUE(IsClean(Pooled("clone"), type()));
  EXPECT_THAT(FilesOfPool(), ElementsAre("clone.img", "snap.img", "v.img"));
}

TEST_P(MountedCopyTest, GroupIsOfOneInstant) {
  SequenceWriter writer({Mounted("a", type()), Mounted("b", type()), Mounted("c", type())});
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    writer.AwaitNext();
    const std::uint64_t before = writer.written();
    ASSERT_OK(mounter_.Copy({CopyOf("c", "c2", type()), CopyOf("a", "a2", type()), CopyOf("b", "b2", type())}));
    const std::uint64_t after = writer.begun();
    std::vector<std::uint64_t> numbers;
    for (const char* name : {"a2", "b2", "c2"}) {
      numbers.push_back(NumberIn(MountCopy(name, type())));
      Unmount(name);
      EXPECT_TRUE(IsClean(Pooled(name), type()));
      ASSERT_EQ(::unlink(Pooled(name).c_str()), 0);
    }
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    EXPECT_EQ(*most, *least + 2) << ::testing::PrintToString(numbers);
    EXPECT_GE(*most, before);
    EXPECT_LE(*most, after);
  }
  writer.Stop();
  EXPECT_EQ(writer.error(), 0);
}

TEST_P(MountedCopyTest, CopiesAReadOnlyMountAndSuperblock) {
  MountRequest request = MountOf(Volume("v", type()), Path("at-v"), type());
  request.flags = ReadOnly();
  ASSERT_OK(mounter_.Mount(request));
  ASSERT_OK(mounter_.Copy({CopyOf("v", "snap")}));
  ASSERT_EQ(Tool("mount -o remount,ro " + Path("at-v")), 0);
  ASSERT_TRUE(MountAt(Path("at-v"))->SuperHas("ro"));
  ASSERT_OK(mounter_.Copy({CopyOf("v", "snap2")}));
  EXPECT_EQ(Tool(fmt::format("cmp {} {}", Pooled("snap2"), Pooled("v"))), 0);
  EXPECT_EQ(Tool("mount -o remount,rw " + Path("at-v")), 0) << "still frozen";
}

TEST_P(MountedCopyTest, ForeignFreezeIsReportedAndThawEndsIt) {
  const std::string place = Mounted("v", type());
  ASSERT_EQ(Tool("fsfreeze -f " + place), 0);
  EXPECT_THAT(mounter_.Copy({CopyOf("v", "snap")}), Refused("frozen already"));
  EXPECT_THAT(FilesOfPool(), ElementsAre("v.img"));
  EXPECT_NE(Tool("fsfreeze -f " + place), 0) << "it was thawed";
  ASSERT_OK(mounter_.Thaw(Pooled("v")));
  EXPECT_EQ(TryWrite(place + "/file", "text"), 0);
  EXPECT_OK(mounter_.Thaw(Pooled("v")));
}

INSTANTIATE_TEST_SUITE_P(Pools, MountedCopyTest,
                         ::testing::Values(Kind{"xfs", "ext4"}, Kind{"xfs", "xfs"}, Kind{"xfs", "btrfs"},
                                           Kind{"ext4", "ext4"}, Kind{"ext4", "xfs"}, Kind{"ext4", "btrfs"},
                                           Kind{"btrfs", "ext4"}),
                         [](const auto& kind) { return fmt::format("{}On{}", kind.param.volume, kind.param.pool); });

class PoolCopyTest : public CopyTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { MakePool(GetParam()); }
};

TEST_P(PoolCopyTest, UnusedImageIsCopiedByteByByteAndItsHolesStay) {
  Sparse("pool/v.img", 300 * kMiB);
  Overwrite(Pooled("v"), 50 * kMiB, std::string(3 * kMiB, 'a'));
  Overwrite(Pooled("v"), 300 * kMiB - 5, "12345");
  ImageCopy larger = CopyOf("v", "larger");
  larger.bytes = 400 * kMiB;
  ASSERT_OK(mounter_.Copy({larger}));
  EXPECT_EQ(StatOf(Pooled("larger")).st_size, static_cast<off_t>(400 * kMiB));
  EXPECT_EQ(StatOf(Pooled("larger")).st_mode & 0777, 0600U);
  EXPECT_EQ(Tool(fmt::format("cmp -n {} {} {}", 300 * kMiB, Pooled("larger"), Pooled("v"))), 0);
  EXPECT_LE(AllocatedBytes(Pooled("larger")), AllocatedBytes(Pooled("v")));
  EXPECT_THAT(FilesOfPool(), ElementsAre("larger.img", "v.img"));
}

// The next stage grows it in this way: ext4 before the mount, xfs after it.
TEST_P(PoolCopyTest, LargerCopyGrowsWhenItIsUsed) {
  for (const std::string type : {"ext4", "xfs"}) {
    Volume(type, type);
    ImageCopy larger = CopyOf(type, type + "2", type);
    larger.bytes = 600 * kMiB;
    ASSERT_OK(mounter_.Copy({larger}));
    if (type == "ext4") {
      ASSERT_OK(mounter_.Grow(larger.destination, type));
    }
    const std::string place = MountCopy(type + "2", type);
    if (type == "xfs") {
      ASSERT_OK(mounter_.Grow(place, type));
    }
    EXPECT_GT(mounter_.Stats(place)->bytes.total, 500 * kMiB) << type;
  }
}

TEST_P(PoolCopyTest, GrowthThatWasCutShortIsUndoneFirst) {
  Volume("v", "ext4");
  File("pool/v.img.undo", "half a header");
  ASSERT_OK(mounter_.Copy({CopyOf("v", "snap")}));
  EXPECT_TRUE(IsClean(Pooled("snap"), "ext4"));
  EXPECT_THAT(FilesOfPool(), ElementsAre("snap.img", "v.img"));
}

// The last rename of several fails, and the others are undone.
TEST_P(PoolCopyTest, AllOrNone) {
  for (const char* name : {"a", "b", "c"}) Sparse(fmt::format("pool/{}.img", name), kMiB);
  EXPECT_THAT(mounter_.Copy({CopyOf("a", "x"), CopyOf("b", "y"), CopyOf("c", "x")}),
              FailsWith(StatusCode::kAlreadyExists, "x.img"));
  EXPECT_THAT(FilesOfPool(), ElementsAre("a.img", "b.img", "c.img"));
}

TEST_P(PoolCopyTest, GroupsThatShareSourcesDoNotWaitForEachOtherForEver) {
  Sparse("pool/a.img", kMiB);
  Sparse("pool/b.img", kMiB);
  const auto copy_often = [this](const std::string& first, const std::string& second) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(mounter_.Copy(
          {CopyOf(first, fmt::format("{}{}-1", first, i)), CopyOf(second, fmt::format("{}{}-2", first, i))}));
    }
  };
  std::thread other([&] { copy_often("a", "b"); });
  copy_often("b", "a");
  other.join();
}

TEST_P(PoolCopyTest, RefusedRequestsLeaveNothing) {
  Volume("v", "ext4");
  Volume("w", "ext4");
  File("pool/there.img", "precious");
  EXPECT_THAT(mounter_.Copy({CopyOf("v", "there")}), FailsWith(StatusCode::kAlreadyExists, "there.img"));
  EXPECT_THAT(mounter_.Copy({CopyOf("w", "new"), CopyOf("v", "there")}), FailsWith(StatusCode::kAlreadyExists, ""));
  EXPECT_THAT(mounter_.Copy({CopyOf("w", "new"), CopyOf("none", "x")}), FailsWith(StatusCode::kNotFound, "none.img"));
  EXPECT_THAT(mounter_.Copy({CopyOf("v", "x"), CopyOf("v", "y")}), FailsWith(StatusCode::kInvalidArgument, "twice"));
  ImageCopy smaller = CopyOf("v", "x");
  smaller.bytes -= 1;
  EXPECT_THAT(mounter_.Copy({smaller}), FailsWith(StatusCode::kInvalidArgument, "or more"));
  EXPECT_THAT(mounter_.Copy({CopyOf("v", "x", "ext2")}), FailsWith(StatusCode::kInvalidArgument, "ext2"));
  ASSERT_EQ(::link(Pooled("v").c_str(), Path("pool/second").c_str()), 0);
  EXPECT_THAT(mounter_.Copy({CopyOf("v", "x")}), Refused("2 names"));
  ASSERT_EQ(::symlink("w.img", Pooled("link").c_str()), 0);
  EXPECT_THAT(mounter_.Copy({CopyOf("link", "x")}), Refused("symbolic link"));
  EXPECT_THAT(FilesOfPool(), ElementsAre("link.img", "second", "there.img", "v.img", "w.img"));
  EXPECT_EQ(ReadFile(Pooled("there")), "precious");
}

TEST_P(PoolCopyTest, BlockDeviceInUseIsCopiedInAPause) {
  Sparse("pool/v.img", 64 * kMiB);
  const auto loop = mounter_.AttachLoop({Pooled("v"), "mooring-kernel-test", false});
  ASSERT_OK(loop);
  Overwrite(loop->device, 5 * kMiB, "written through the page cache of the device");
  ASSERT_OK(mounter_.Copy({CopyOf("v", "snap")}));
  EXPECT_EQ(ReadFile(Pooled("snap")).substr(5 * kMiB, 7), "written");
  ASSERT_OK(mounter_.DetachLoop(*loop));
  ASSERT_TRUE(NoLoopOver(Pooled("v")));
  EXPECT_EQ(Tool(fmt::format("cmp {} {}", Pooled("snap"), Pooled("v"))), 0);
}

std::uint64_t NumberAt(const std::string& path, off_t offset) {
  std::uint64_t number = 0;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::pread(fd.get(), &number, sizeof(number), offset), 8);
  return number;
}

std::uint64_t HeadOf(const std::string& path) { return NumberAt(path, 0); }

TEST_P(PoolCopyTest, SeveralBlockDevicesInUseAreCopiedInACommonPause) {
  std::vector<std::string> devices;
  for (const char* name : {"v", "w"}) {
    Sparse(fmt::format("pool/{}.img", name), 64 * kMiB);
    devices.push_back(mounter_.AttachLoop({Pooled(name), "mooring-kernel-test", false})->device);
  }
  const DeviceWriter writer(devices, std::chrono::milliseconds(1500));
  ASSERT_OK(mounter_.Copy({CopyOf("v", "a"), CopyOf("w", "b")}));
  EXPECT_GT(HeadOf(Pooled("a")), 0U);
  EXPECT_LE(HeadOf(Pooled("a")) - HeadOf(Pooled("b")), 1U) << "of v the next one may be written";
}

// A read-only mount of the device, or of one above it, does not keep a task from writing to the device.
TEST_P(PoolCopyTest, RawWriterBesideAReadOnlyMountIsCopiedInAPause) {
  constexpr off_t kEnd = 200 << 20;
  Volume("v", "ext4", kEnd);
  // Its blocks would be overwritten, and a mount reads them. Newer programs make this file (e2fsprogs 1.47.2).
  ASSERT_EQ(Tool("tune2fs -O ^orphan_file " + Pooled("v")), 0);
  const auto loop = mounter_.AttachLoop({Pooled("v"), "mooring-kernel-test", false});
  ASSERT_OK(loop);
  ASSERT_EQ(Tool(fmt::format("dd if=/dev/urandom of={} bs=1M seek=20 count=150 oflag=direct", loop->device)), 0);
  const std::string upper = Losetup("-r " + loop->device);
  Dir("reader");
  for (const std::string& device : {loop->device, upper}) {
    SCOPED_TRACE(device == upper ? "mounted above" : "mounted itself");
    ASSERT_EQ(Tool(fmt::format("mount -o ro,noload {} {}", device, Path("reader"))), 0);
    {
      const DeviceWriter writer({loop->device}, std::chrono::milliseconds(1500), {0, kEnd - 4096});
      EXPECT_OK(mounter_.Copy({CopyOf("v", "snap")}));
    }
    EXPECT_GT(NumberAt(Pooled("snap"), 0), 0U);
    EXPECT_LE(NumberAt(Pooled("snap"), 0) - NumberAt(Pooled("snap"), kEnd - 4096), 1U) << "the end is newer";
    EXPECT_EQ(::unlink(Pooled("snap").c_str()), 0);
    EXPECT_EQ(Tool("umount " + Path("reader")), 0);
  }
  EXPECT_EQ(Tool("losetup -d " + upper), 0);
}

// Kubelet makes a second loop device over each block volume, and a task may mount its own.
TEST_P(PoolCopyTest, FilesystemOnADeviceOverTheVolumesDeviceIsFrozen) {
  Volume("v", "ext4");
  const auto loop = mounter_.AttachLoop({Pooled("v"), "mooring-kernel-test", false});
  ASSERT_OK(loop);
  const std::string upper = Losetup(loop->device);
  Dir("upper");
  ASSERT_EQ(Tool(fmt::format("mount {} {}", upper, Path("upper"))), 0);
  {
    SequenceWriter writer({Path("upper")});
    writer.AwaitNext();
    const std::uint64_t before = writer.written();
    EXPECT_OK(mounter_.Copy({CopyOf("v", "snap", "ext4")}));
    const std::uint64_t after = writer.begun();
    const std::uint64_t number = NumberIn(MountCopy("snap", "ext4"));
    EXPECT_GE(number, before);
    EXPECT_LE(number, after);
  }
  EXPECT_EQ(Tool(fmt::format("umount {} && losetup -d {}", Path("upper"), upper)), 0);
}

// The writes of the copy would wait for the thaw, and the thaw for the copy.
TEST_P(PoolCopyTest, CopyWithinAFilesystemToBeFrozenIsRefused) {
  const std::string place = Mounted("v", "ext4");
  ImageCopy into = CopyOf("v", "unused");
  into.destination = place + "/copy.img";
  EXPECT_THAT(mounter_.Copy({into}), Refused("has to freeze"));
  Sparse("at-v/inner.img", kMiB);
  ImageCopy out;
  out.source = place + "/inner.img";
  out.destination = Pooled("inner");
  out.bytes = kMiB;
  EXPECT_THAT(mounter_.Copy({out, CopyOf("v", "snap")}), Refused("has to freeze"));
  EXPECT_EQ(TryWrite(place + "/file", "text"), 0);
  EXPECT_OK(mounter_.Copy({out}));
  EXPECT_THAT(FilesOfPool(), ElementsAre("inner.img", "v.img"));
}

TEST_P(PoolCopyTest, WaitsForTheLockOfTheSource) {
  Volume("v", "ext4");
  UniqueFd lock = HoldImage(Pooled("v"));
  std::atomic<bool> done{false};
  std::thread copy([&] {
    EXPECT_OK(mounter_.Copy({CopyOf("v", "snap")}));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  lock.reset();
  copy.join();
}

INSTANTIATE_TEST_SUITE_P(Pools, PoolCopyTest, ::testing::Values("xfs", "ext4"),
                         [](const auto& pool) { return std::string(pool.param); });

}  // namespace
}  // namespace mooring::testing
