// Lookups give the same answers without statmount(2), which exists from Linux 6.8 on and which older seccomp profiles
// forbid. All other tests run again without it: KernelTestsWithout in tests/CMakeLists.txt.
#include <fmt/ranges.h>
#include <linux/major.h>
#include <sys/sysmacros.h>

#include "base/file/path.h"
#include "mounter/guard/source_guard.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

bool FailStatMount(unsigned error) {
  constexpr std::uint32_t kStatMountCall = 457, kListMountCall = 458;
  return FailSystemCalls({kStatMountCall, kListMountCall}, error);
}

// From now on mountinfo is empty for this process.
bool HideMountInfo() {
  const std::string path = fmt::format("/proc/{}/mountinfo", ::getpid());
  return ::mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr) == 0 && ReadFile("/proc/self/mountinfo").empty();
}

// All fields but the id, which differs.
std::string Text(const MountInfo& info) {
  return fmt::format("{} {} {} {} {} {}\n", info.target, info.root, info.fs_type, info.device, ToString(info.flags),
                     info.superblock_read_only);
}

class OlderKernelTest : public KernelTest {
 protected:
  void SetUp() override {
    const std::string shared = SharedMount("shared");
    Dir("source");
    MakeMount("plain", {}, Propagation::kPrivate);
    MakeMount("with space", ReadOnly(), Propagation::kShared);
    MakeMount("back\\slash", {.nosuid = true, .nodev = true, .noexec = true}, Propagation::kPrivate);
    MakeMount("strict", {.nodiratime = true, .atime = Atime::kStrictatime}, Propagation::kPrivate);
    MakeMount("noatime", {.nosymfollow = true, .atime = Atime::kNoatime}, Propagation::kPrivate);
    BindRequest mapped = BindOf(PrivateMount("own"), Path("mapped"));
    mapped.idmap = "b:0:100000:65536";
    ASSERT_OK(mounter_.Bind(mapped));
    ASSERT_OK(mounter_.Bind(BindOf(shared, Path("slave"), {}, Propagation::kSlave)));
    ASSERT_EQ(::mount("none", Dir("read only tmpfs").c_str(), "tmpfs", MS_RDONLY, nullptr), 0);
  }
  void MakeMount(const std::string& name, const MountFlags& flags, Propagation propagation) {
    ASSERT_OK(mounter_.Bind(BindOf(Path("source"), Path(name), flags, propagation)));
  }
  std::string ListAll() {
    const auto mounts = mounter_.List(dir_.path());
    if (!mounts.ok()) return mounts.status().ToString();
    std::string text;
    for (const ListedMount& info : *mounts)
      text += fmt::format("{} {} {} {}", info.peer_group, info.master, info.ids_mapped, Text(info));
    return text;
  }
  std::string FindAll() {
    std::string text;
    for (const char* name : {"plain", "with space", "back\\slash", "strict", "noatime", "slave", "read only tmpfs"}) {
      const auto info = mounter_.Find(Path(name));
      if (!info.ok()) return info.status().ToString();
      text += info->mount ? Text(*info->mount) : std::string("no mount\n");
    }
    return text;
  }
};

// A call is missing in an older kernel, or forbidden by a seccomp profile.
TEST_F(OlderKernelTest, FindAndListGiveTheSameAnswersWithoutStatMount) {
  const std::string with = FindAll() + ListAll();
  EXPECT_THAT(FindAll(), Not(HasSubstr("no mount")));
  EXPECT_THAT(ListAll(), HasSubstr(Path("slave")));
  for (const unsigned error : {ENOSYS, EPERM}) {
    EXPECT_EQ(AskInChild([&] { return FailStatMount(error) ? FindAll() + ListAll() : std::string("no filter"); }),
              with);
  }
}

// The cost of reading mountinfo grows with the number of mounts on the host.
TEST_F(OlderKernelTest, WithStatMountNothingReadsMountinfo) {
  if (!HasStatMount()) GTEST_SKIP() << "there is no statmount here: mountinfo is read";
  const MountNamespace apart(MountNamespace::Kind::kSlave);
  const std::string wanted = apart.Ask([&] { return FindAll() + ListAll(); });
  EXPECT_THAT(wanted, HasSubstr(Path("slave")));
  EXPECT_EQ(apart.Ask([&] { return HideMountInfo() ? FindAll() + ListAll() : std::string("not hidden"); }), wanted);
  const std::string image = Ext4Image("image");
  const std::string answer = apart.Ask([&] {
    if (!HideMountInfo()) return std::string("not hidden");
    std::string text = mounter_.Bind(BindOf(Path("source"), Path("new"))).ToString();
    text += " " + mounter_.Unmount(UnmountOf(Path("new"), true)).ToString();
    text += " " + mounter_.Mount(MountOf(image, Path("new"))).ToString();
    text += " " + mounter_.Stats(Path("new")).status().ToString();
    return text + " " + mounter_.Unmount(UnmountOf(Path("new"), true)).ToString();
  });
  EXPECT_EQ(answer, "OK OK OK OK OK");
}

TEST_F(OlderKernelTest, WithoutStatMountMountinfoIsReadIndeed) {
  const MountNamespace apart(MountNamespace::Kind::kSlave);
  const std::string answer =
      apart.Ask([&] { return HideMountInfo() && FailStatMount(ENOSYS) ? ListAll() : std::string("not hidden"); });
  EXPECT_EQ(answer, "") << "or the two tests above compare statmount with itself";
}

// The mount of a volume on a loop device, which is found without statmount and without mountinfo. `mountinfo` itself is
// the witness for each field.
class WithoutTableTest : public KernelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  struct EveryLoopIsAVolume final : SourcePolicy {
    absl::Status CheckBindSource(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
    absl::Status CheckBackingFile(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
    absl::Status CheckDirectory(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
    absl::Status CheckFilesystem(const UniqueFd&, const std::string&) const override { return absl::OkStatus(); }
    bool IsVolumeDevice(dev_t device) const override { return major(device) == LOOP_MAJOR; }
  };

  // In a process that has neither.
  std::string FindWithoutBoth(const std::vector<std::string>& paths) { return FindWithoutBoth(volumes_, paths); }
  static std::string FindWithoutBoth(KernelMounter& mounter, const std::vector<std::string>& paths) {
    const MountNamespace apart(MountNamespace::Kind::kSlave);
    return apart.Ask([&] {
      if (!HideMountInfo() || !FailStatMount(ENOSYS)) return std::string("not hidden");
      std::string text;
      for (const std::string& path : paths) text += FoundAt(mounter, path);
      return text;
    });
  }
  std::string FoundAt(const std::string& path) { return FoundAt(volumes_, path); }
  static std::string FoundAt(KernelMounter& mounter, const std::string& path) {
    const auto info = mounter.Find(path);
    if (!info.ok()) return info.status().ToString() + "\n";
    if (!info->mount) return "no mount\n";
    return fmt::format("{} {} {} {} {} loop {} root '{}' source '{}'\n", info->mount->target, info->mount->fs_type,
                       info->device, ToString(info->mount->flags), info->mount->superblock_read_only,
                       info->loop ? info->loop->label : "none", NameOf(info->mount->root),
                       info->mount->fs_type == "tmpfs" ? info->mount->source : "");
  }
  // The last name of the root is only known for a directory volume. The source is always known for a tmpfs.
  std::string LineOf(const std::string& path, dev_t device, const std::string& label, const std::string& root = "",
                     const std::string& source = "") {
    const MountLine line = *MountAt(path);
    return fmt::format("{} {} {} {} {} loop {} root '{}' source '{}'\n", path, line.fs_type, device,
                       ToString(FlagsOfMountInfo(fmt::format("{}", fmt::join(line.options, ",")))), line.SuperHas("ro"),
                       label, root, source);
  }

  const EveryLoopIsAVolume policy_;
  KernelMounter volumes_{{"/"}, policy_};
};

TEST_P(WithoutTableTest, EachFlagOfAFilesystemIsFound) {
  MountRequest request = MountOf(ImageOf(GetParam(), "image"), Path("staged"), GetParam());
  request.label = "mooring:vol-1";
  ASSERT_OK(volumes_.Mount(request));
  const dev_t device = volumes_.Find(Path("staged"))->device;
  std::vector<std::string> paths = {Path("staged")};
  std::string wanted = LineOf(Path("staged"), device, "mooring:vol-1");
  for (const MountFlagRow& row : MountFlagTable()) {
    MountFlags flags;
    Set(flags, row);
    paths.push_back(Path(std::string(row.word)));
    ASSERT_OK(volumes_.Bind(BindOf(Path("staged"), paths.back(), flags)));
    wanted += LineOf(paths.back(), device, "mooring:vol-1");
  }
  EXPECT_EQ(FindWithoutBoth(paths), wanted);
  EXPECT_THAT(wanted, HasSubstr(std::string(" ") + GetParam() + " "));
}

// Whether such a mount is read-only by itself, statfs(2) does not say.
TEST_P(WithoutTableTest, AReadOnlyFilesystemNeedsTheTable) {
  MountRequest request = MountOf(ImageOf(GetParam(), "image"), Path("staged"), GetParam());
  ASSERT_OK(volumes_.Mount(request));
  const std::string path = Path("staged");
  ASSERT_EQ(::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_THAT(FindWithoutBoth({path}), HasSubstr("NOT_FOUND")) << "the table is hidden, so the mount is not in it";
  EXPECT_EQ(AskInChild([&] { return FailStatMount(ENOSYS) ? FoundAt(path) : std::string("no filter"); }),
            FoundAt(path));
  EXPECT_TRUE(volumes_.Find(path)->mount->superblock_read_only);
}

INSTANTIATE_TEST_SUITE_P(Filesystems, WithoutTableTest, ::testing::Values("ext4", "xfs", "btrfs"));

TEST_F(WithoutTableTest, ABoundDeviceNodeIsFound) {
  const std::string device = Losetup(Ext4Image("image"));
  ASSERT_OK(volumes_.Bind(NodeBindOf(device, Path("node"))));
  EXPECT_EQ(FindWithoutBoth({Path("node")}), LineOf(Path("node"), StatOf(device).st_rdev, Path("image")));
}

// A hung server must not be asked for anything, and the root of such a mount is not known without the table.
TEST_F(WithoutTableTest, OtherMountsNeedTheTable) {
  Dir("source");
  ASSERT_OK(volumes_.Bind(BindOf(Path("source"), Path("directory"))));
  ASSERT_EQ(::mount("none", Dir("tmpfs").c_str(), "tmpfs", 0, nullptr), 0);
  for (const char* name : {"directory", "tmpfs"}) EXPECT_THAT(FindWithoutBoth({Path(name)}), HasSubstr("NOT_FOUND"));
}

// A tmpfs, whose source says which volume it is.
class MemoryWithoutTableTest : public WithoutTableTest {
 protected:
  MountRequest Memory() const {
    MountRequest request = MountOf("mooring:vol-1", Path("memory"), "tmpfs");
    request.options = {{"size", "1048576"}};
    return request;
  }
};

TEST_F(MemoryWithoutTableTest, EachFlagOfATmpfsIsFound) {
  ASSERT_OK(volumes_.Mount(Memory()));
  std::vector<std::string> paths = {Path("memory")};
  for (const MountFlagRow& row : MountFlagTable()) {
    MountFlags flags;
    Set(flags, row);
    paths.push_back(Path(std::string(row.word)));
    ASSERT_OK(volumes_.Bind(BindOf(Path("memory"), paths.back(), flags)));
  }
  std::string wanted;
  for (const std::string& path : paths) {
    wanted += LineOf(path, StatOf(path).st_dev, "none", "", MountAt(path)->source);
    EXPECT_EQ(MountAt(path)->root, "/");
  }
  EXPECT_EQ(FindWithoutBoth(paths), wanted);
  EXPECT_THAT(wanted, HasSubstr(" source 'mooring:vol-1'"));
}

// Another process mounted it, for example an earlier mount helper.
TEST_F(MemoryWithoutTableTest, TheTableIsReadOnceForATmpfs) {
  ASSERT_EQ(::mount("mooring:vol-2", Dir("theirs").c_str(), "tmpfs", 0, nullptr), 0);
  const std::string path = Path("theirs");
  const MountNamespace apart(MountNamespace::Kind::kSlave);
  const std::string twice = apart.Ask([&] {
    const std::string first = FailStatMount(ENOSYS) ? FoundAt(path) : std::string("no filter");
    return HideMountInfo() ? first + FoundAt(path) : std::string("not hidden");
  });
  const std::string once = LineOf(path, StatOf(path).st_dev, "none", "", "mooring:vol-2");
  EXPECT_EQ(twice, once + once);
}

TEST_F(MemoryWithoutTableTest, ATmpfsWithTheNumberOfAnEarlierOneIsAnother) {
  ASSERT_OK(volumes_.Mount(Memory()));
  const dev_t number = StatOf(Path("memory")).st_dev;
  ASSERT_OK(volumes_.Unmount(UnmountOf(Path("memory"))));
  ASSERT_EQ(::mount("mooring:vol-2", Path("memory").c_str(), "tmpfs", 0, nullptr), 0);
  if (StatOf(Path("memory")).st_dev != number) GTEST_SKIP() << "the kernel gave it another number";
  EXPECT_THAT(FindWithoutBoth({Path("memory")}), HasSubstr("NOT_FOUND")) << "only the table tells its source";
}

TEST_F(MemoryWithoutTableTest, TheLifeOfATmpfsReadsNoTable) {
  const MountNamespace apart(MountNamespace::Kind::kPrivate);
  EXPECT_EQ(apart.Ask([&] {
    if (!HideMountInfo() || !FailStatMount(ENOSYS)) return std::string("not hidden");
    const ExpectedMount expected = {.label = "mooring:vol-1"};
    std::string text = volumes_.Mount(Memory()).ToString();
    text += fmt::format(" {}", volumes_.BindIf({BindOf(Path("memory"), Path("target")), expected}).value_or(false));
    text +=
        fmt::format(" {}", volumes_.Change({.target = Path("memory"), .options = {{"size", "2097152"}}}).ToString());
    const auto seen = volumes_.Examine({Path("target"), expected});
    text += fmt::format(" {}", seen.ok() ? seen->usage.bytes.total : 0);
    text += fmt::format(" {}", volumes_.UnmountIf({UnmountOf(Path("target"), true), expected}).value_or(false));
    return text + " " + volumes_.Unmount(UnmountOf(Path("memory"), true)).ToString();
  }),
            "OK true OK 2097152 true OK");
}

// A pool of directory volumes on a filesystem of its own. The guard of the mount helper says which directories are
// volumes.
class DirectoryWithoutTableTest : public WithoutTableTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Tool(fmt::format("mount -o loop '{}' '{}'", ImageOf(GetParam(), "image"), Dir("disk"))), 0);
    Dir("disk/pool/vol-1");
    Dir("disk/pool/vol-2");
  }

  const SourceGuard guard_{{}, "mooring", {Path("disk/pool")}};
  KernelMounter directories_{{"/"}, guard_};
};

TEST_P(DirectoryWithoutTableTest, EachFlagOfADirectoryIsFound) {
  ASSERT_OK(directories_.Bind(BindOf(Path("disk/pool/vol-1"), Path("staged"))));
  const dev_t device = directories_.Find(Path("staged"))->device;
  std::vector<std::string> paths = {Path("staged")};
  for (const MountFlagRow& row : MountFlagTable()) {
    MountFlags flags;
    Set(flags, row);
    paths.push_back(Path(std::string(row.word)));
    ASSERT_OK(directories_.Bind(BindOf(Path("staged"), paths.back(), flags)));
  }
  std::string wanted;
  for (const std::string& path : paths)
    wanted += LineOf(path, device, Path("image"), std::string(NameOf(MountAt(path)->root)));
  EXPECT_EQ(FindWithoutBoth(directories_, paths), wanted);
  EXPECT_THAT(wanted, HasSubstr(" root 'vol-1' "));
  EXPECT_THAT(wanted, HasSubstr(std::string(" ") + GetParam() + " "));
}

TEST_P(DirectoryWithoutTableTest, ARenamedOrDeletedDirectoryIsNotTakenForAnother) {
  ASSERT_OK(directories_.Bind(BindOf(Path("disk/pool/vol-1"), Path("one"))));
  ASSERT_OK(directories_.Bind(BindOf(Path("disk/pool/vol-2"), Path("two"))));
  std::filesystem::rename(Path("disk/pool/vol-1"), Path("disk/pool/vol-3"));
  std::filesystem::remove(Path("disk/pool/vol-2"));
  Dir("disk/pool/vol-1");
  Dir("disk/pool/vol-2");
  EXPECT_THAT(FindWithoutBoth(directories_, {Path("one")}), HasSubstr(" root 'vol-3' "));
  EXPECT_THAT(FindWithoutBoth(directories_, {Path("two")}), HasSubstr("NOT_FOUND")) << "only the table knows it";
}

TEST_P(DirectoryWithoutTableTest, TheLifeOfADirectoryReadsNoTable) {
  const MountNamespace apart(MountNamespace::Kind::kPrivate);
  EXPECT_EQ(apart.Ask([&] {
    if (!HideMountInfo() || !FailStatMount(ENOSYS)) return std::string("not hidden");
    std::string text = directories_.Bind(BindOf(Path("disk/pool/vol-1"), Path("staged"))).ToString();
    const auto staged = directories_.Find(Path("staged"));
    return text + (staged.ok() ? " found " + std::string(NameOf(staged->mount->root)) : staged.status().ToString()) +
           " " + directories_.Unmount(UnmountOf(Path("staged"), true)).ToString();
  }),
            "OK found vol-1 OK");
}

INSTANTIATE_TEST_SUITE_P(Filesystems, DirectoryWithoutTableTest, ::testing::Values("ext4", "xfs", "btrfs"));

}  // namespace
}  // namespace mooring::testing
