// Look-ups without statmount(2), which Linux 6.8 brought and older seccomp profiles forbid, give the answers of those
// with it. All other tests run again without it: KernelTestsWithout in tests/CMakeLists.txt.
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>

#include "tests/kernel/kernel_test.h"
#include "tests/kernel/mount/namespaces.h"

namespace mooring::testing {
namespace {

// Makes statmount and listmount fail with `error` in this process, as under an older seccomp profile.
bool TakeStatMountAway(unsigned error) {
  constexpr std::uint32_t kStatMount = 457, kListMount = 458;
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kStatMount, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kListMount, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// From now on this process finds an empty file where mountinfo was.
bool TakeMountInfoAway() {
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

TEST_F(OlderKernelTest, FindGivesTheSameAnswersWithoutStatMount) {
  const std::string with = FindAll();
  EXPECT_THAT(with, ::testing::Not(::testing::HasSubstr("no mount")));
  EXPECT_EQ(AskInChild([&] { return TakeStatMountAway(ENOSYS) ? FindAll() : std::string("no filter"); }), with);
}

TEST_F(OlderKernelTest, ListGivesTheSameAnswersWithoutStatMount) {
  const std::string with = ListAll();
  EXPECT_THAT(with, ::testing::HasSubstr(Path("slave")));
  EXPECT_EQ(AskInChild([&] { return TakeStatMountAway(ENOSYS) ? ListAll() : std::string("no filter"); }), with);
}

TEST_F(OlderKernelTest, StatMountForbiddenBySeccompIsLikeNotThere) {
  EXPECT_EQ(AskInChild([&] { return TakeStatMountAway(EPERM) ? FindAll() + ListAll() : std::string("no filter"); }),
            FindAll() + ListAll());
}

TEST_F(OlderKernelTest, MountsAndUnmountsWithoutStatMount) {
  const std::string answer = AskInChild([&] {
    if (!TakeStatMountAway(ENOSYS)) return std::string("no filter");
    std::string text = mounter_.Bind(BindOf(Path("source"), Path("new"), ReadOnly())).ToString();
    text += " " + OptionsAt(Path("new"));
    text += " " + mounter_.Bind(BindOf(Path("source"), Path("new"))).ToString().substr(0, 19);
    return text + " " + mounter_.Unmount(UnmountOf(Path("new"), true)).ToString();
  });
  EXPECT_EQ(answer, "OK ro,relatime FAILED_PRECONDITION OK");
}

// The cost of reading mountinfo grows with the number of mounts on the host.
TEST_F(OlderKernelTest, WithStatMountNothingReadsMountinfo) {
  if (!HasStatMount()) GTEST_SKIP() << "there is no statmount here: mountinfo is read";
  const MountNamespace apart(MountNamespace::Kind::kSlave);
  const std::string wanted = apart.Ask([&] { return FindAll() + ListAll(); });
  EXPECT_THAT(wanted, ::testing::HasSubstr(Path("slave")));
  EXPECT_EQ(apart.Ask([&] { return TakeMountInfoAway() ? FindAll() + ListAll() : std::string("not taken away"); }),
            wanted);
  const std::string image = Ext4Image("image");
  const std::string answer = apart.Ask([&] {
    if (!TakeMountInfoAway()) return std::string("not taken away");
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
  const std::string answer = apart.Ask(
      [&] { return TakeMountInfoAway() && TakeStatMountAway(ENOSYS) ? ListAll() : std::string("not taken away"); });
  EXPECT_EQ(answer, "") << "or the two tests above compare statmount with itself";
}

}  // namespace
}  // namespace mooring::testing
