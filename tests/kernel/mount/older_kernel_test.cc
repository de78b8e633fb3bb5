// Lookups give the same answers without statmount(2), which exists from Linux 6.8 on and which older seccomp profiles
// forbid. All other tests run again without it: KernelTestsWithout in tests/CMakeLists.txt.
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
  return fmt::format("{} {} {} {} {} {} {} {}\n", info.target, info.root, info.fs_type, info.device,
                     ToString(info.flags), info.superblock_read_only, info.peer_group, info.master);
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
    MakeMount("noatime", {.atime = Atime::kNoatime}, Propagation::kPrivate);
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
    for (const MountInfo& info : *mounts) text += Text(info);
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

}  // namespace
}  // namespace mooring::testing
