// Source × flags × propagation, with the libmount that is loaded. tests/debian/libmount runs it with that of Debian 13.
#include <libmount/libmount.h>

#include <array>
#include <cstdlib>

#include "mounter/mount/new_mount.h"
#include "mounter/propagation.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

enum class Source { kBind, kRecursiveBind, kBlock, kExt4, kXfs, kBtrfs, kMemory };

constexpr Propagation kAll[] = {Propagation::kInherit, Propagation::kPrivate, Propagation::kSlave,
                                Propagation::kShared};

std::vector<MountFlags> FlagSets() {
  return {{},
          {.read_only = true},
          {.nosuid = true},
          {.nodev = true},
          {.noexec = true},
          {.nodiratime = true},
          {.nosymfollow = true},
          {.atime = Atime::kNoatime},
          {.atime = Atime::kStrictatime},
          {.read_only = true, .nodev = true, .atime = Atime::kStrictatime},
          {.read_only = true,
           .nosuid = true,
           .nodev = true,
           .noexec = true,
           .nodiratime = true,
           .nosymfollow = true,
           .atime = Atime::kNoatime}};
}

class LibmountTableTest : public KernelTest, public ::testing::WithParamInterface<Source> {
 protected:
  // libmount 2.38.1 loses nosuid and nodev of the source when it binds with other flags.
  void SetUp() override {
    shared_ = SharedMount("csi");
    Dir("source");
    ASSERT_EQ(::mount("none", Path("source").c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_STRICTATIME, nullptr), 0);
    Dir("source/below");
    ASSERT_EQ(::mount("none", Path("source/below").c_str(), "tmpfs", MS_NOATIME, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, Path("source").c_str(), nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    source_ = Image();
  }

  std::string Image() const {
    switch (GetParam()) {
      case Source::kBind:
      case Source::kRecursiveBind:
        return Path("source");
      case Source::kBlock:
        return Losetup(Sparse("image", kMiB));
      case Source::kExt4:
        return Losetup(Ext4Image("image"));
      case Source::kXfs:
        return Losetup(XfsImage("image"));
      case Source::kBtrfs:
        return Losetup(BtrfsImage("image"));
      case Source::kMemory:
        return "mooring:table";
    }
    return "";
  }

  MountRequest Request() const {
    MountRequest request = MountOf(source_, target());
    if (GetParam() == Source::kExt4) request.options = {{"commit", "30"}, {"nodelalloc", std::nullopt}};
    if (GetParam() == Source::kXfs) request.options = {{"largeio", std::nullopt}, {"logbsize", "64k"}};
    if (GetParam() == Source::kBtrfs) request.options = {{"compress", "zstd:3"}, {"noacl", std::nullopt}};
    if (GetParam() == Source::kMemory) request.options = {{"size", "4194304"}, {"mode", "0750"}};
    if (GetParam() == Source::kXfs) request.fs_type = "xfs";
    if (GetParam() == Source::kBtrfs) request.fs_type = "btrfs";
    if (GetParam() == Source::kMemory) request.fs_type = "tmpfs";
    return request;
  }

  // The options of Request as mountinfo shows them.
  std::vector<std::string> Shown() const {
    if (GetParam() == Source::kExt4) return {"commit=30", "nodelalloc", "errors=remount-ro"};
    if (GetParam() == Source::kXfs) return {"largeio", "logbsize=64k"};
    if (GetParam() == Source::kBtrfs) return {"compress=zstd:3", "noacl", "subvolid=5"};
    if (GetParam() == Source::kMemory) return {"size=4096k", "mode=750"};
    return {};
  }

  absl::Status MountIt(const MountFlags& flags, Propagation propagation) {
    if (GetParam() == Source::kBind || GetParam() == Source::kRecursiveBind || GetParam() == Source::kBlock) {
      BindRequest request = BindOf(source_, target(), flags, propagation);
      request.recursive = GetParam() == Source::kRecursiveBind;
      if (GetParam() == Source::kBlock) request.target_kind = TargetKind::kFile;
      return mounter_.Bind(request);
    }
    MountRequest request = Request();
    request.flags = flags;
    request.propagation = propagation;
    return mounter_.Mount(request);
  }

  // The target lies below a shared mount, which makes new mounts shared. Without a peer or a master, a slave is
  // private.
  static void ExpectPropagation(const std::string& path, Propagation propagation) {
    const bool alone = propagation == Propagation::kPrivate || propagation == Propagation::kSlave;
    EXPECT_EQ(PropagationAt(path).find("shared:") == std::string::npos, alone) << PropagationAt(path);
    if (propagation == Propagation::kPrivate) {
      EXPECT_EQ(PropagationAt(path), "");
    }
  }

  void ExpectAsAsked(const MountFlags& flags, Propagation propagation) {
    EXPECT_EQ(FlagsOfMountInfo(OptionsAt(target())), flags) << OptionsAt(target());
    ExpectPropagation(target(), propagation);
    EXPECT_FALSE(MountAt(target())->SuperHas("ro"));
    for (const std::string& option : Shown()) EXPECT_TRUE(MountAt(target())->SuperHas(option)) << option;
    if (GetParam() != Source::kRecursiveBind) return;
    // A mount below keeps its own flags and gets these in addition.
    const MountFlags below = FlagsOfMountInfo(OptionsAt(target() + "/below"));
    EXPECT_EQ(below, Stricter({.atime = Atime::kNoatime}, {flags.read_only, flags.nosuid, flags.nodev, flags.noexec,
                                                           flags.nodiratime, flags.nosymfollow, Atime::kRelatime}));
    ExpectPropagation(target() + "/below", propagation);
  }

  std::string target() const { return shared_ + "/target"; }

  std::string shared_, source_;
};

TEST_P(LibmountTableTest, AMountIsExactlyAsAsked) {
  for (const MountFlags& flags : FlagSets()) {
    for (const Propagation propagation : kAll) {
      SCOPED_TRACE(fmt::format("{} {}", ToString(flags), ToString(propagation)));
      ASSERT_OK(MountIt(flags, propagation));
      ExpectAsAsked(flags, propagation);
      if (GetParam() == Source::kRecursiveBind) {
        ASSERT_EQ(::umount2((target() + "/below").c_str(), 0), 0);
      }
      ASSERT_OK(mounter_.Unmount(UnmountOf(target(), true)));
      ASSERT_THAT(MountsBelow(Path("source")), SizeIs(2));
    }
  }
}

// From all flags to each set and back, and to each propagation.
TEST_P(LibmountTableTest, AChangedMountIsExactlyAsAsked) {
  const MountFlags most = FlagSets().back();
  ASSERT_OK(MountIt(most, Propagation::kPrivate));
  for (const MountFlags& flags : FlagSets()) {
    for (const MountFlags& next : {flags, most}) {
      ASSERT_OK(mounter_.Change({.target = target(), .flags = next}));
      EXPECT_EQ(FlagsOfMountInfo(OptionsAt(target())), next) << OptionsAt(target());
      EXPECT_FALSE(MountAt(target())->SuperHas("ro"));
    }
  }
  for (const Propagation propagation : {Propagation::kShared, Propagation::kSlave, Propagation::kPrivate}) {
    ASSERT_OK(mounter_.Change({.target = target(), .propagation = propagation}));
    ExpectPropagation(target(), propagation);
    EXPECT_EQ(FlagsOfMountInfo(OptionsAt(target())), most);
  }
}

std::string NameOf(Source source) {
  constexpr std::array kNames = {"Bind", "RecursiveBind", "Block", "Ext4", "Xfs", "Btrfs", "Memory"};
  return kNames.at(static_cast<std::size_t>(source));
}

INSTANTIATE_TEST_SUITE_P(Sources, LibmountTableTest,
                         ::testing::Values(Source::kBind, Source::kRecursiveBind, Source::kBlock, Source::kExt4,
                                           Source::kXfs, Source::kBtrfs, Source::kMemory),
                         [](const auto& test) { return NameOf(test.param); });

using LibmountTest = KernelTest;

// Set by tests/debian/libmount.
TEST_F(LibmountTest, ItIsTheOneThatIsToBeTested) {
  const char* expected = std::getenv("MOORING_LIBMOUNT");
  if (expected == nullptr) GTEST_SKIP() << "any will do";
  const char* version = nullptr;
  mnt_get_library_version(&version);
  EXPECT_TRUE(std::string_view(version).starts_with(expected)) << version << ", not " << expected;
}

// The table of options holds only some of the kernel's conditions.
TEST_F(LibmountTest, TheKernelsOwnWordsAreInTheError) {
  MountRequest request = MountOf(Losetup(Ext4Image("image")), Path("target"));
  const auto fails = [&](const FilesystemOption& option) {
    request.options = {option};
    const absl::StatusOr<NewMount> mount = MakeMount(request, request.source);
    return mount.ok() ? std::string("mounted") : mount.status().ToString();
  };
  EXPECT_THAT(fails({"nonsense", std::nullopt}), HasSubstr("option nonsense: mount the ext4 filesystem of"));
  EXPECT_THAT(fails({"nonsense", std::nullopt}), HasSubstr("ext4: Unknown parameter 'nonsense'"));
  EXPECT_THAT(fails({"commit", "often"}), HasSubstr("ext4: Bad value for 'commit'"));
  request.fs_type = "xfs";
  EXPECT_THAT(fails({"largeio", std::nullopt}), HasSubstr("the kernel's log may say more"));
  request.fs_type = "tmpfs";
  request.source = "UUID=abc";  // libmount takes it for a tag
  EXPECT_THAT(fails({"size", "4096"}), HasSubstr("Invalid argument"));
  request.fs_type = "nofs";
  EXPECT_THAT(fails({"x", std::nullopt}), HasSubstr("the kernel knows no filesystem nofs"));
}

}  // namespace
}  // namespace mooring::testing
