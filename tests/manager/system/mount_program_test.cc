// The installed mount(8), umount(8) and fstab with mount.csi and umount.csi in /sbin. /run, with its utab, and /sbin
// are private to the mount namespace of the test.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>

#include "base/file/unique_fd.h"
#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

constexpr int kUsage = 1, kNoTable = 16, kFailed = 32;  // mount(8)

struct Ran {
  int status = 0;
  std::string said;  // on stdout and stderr
};

class MountProgram : public ManagerTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mount("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"), 0);
    InstallHelpers();
    process().options().socket = "/run/mooring/manager.sock";  // where mount.csi looks
    fs::create_directory("/run/mooring");
    Start();
    RunPlugin(kOurPlugin);
    Create("db", kOurPlugin);
    fs::create_directory(place());
  }

  void TearDown() override {
    ManagerTest::TearDown();
    EXPECT_EQ(::umount2(sbin_.c_str(), UMOUNT_NOFOLLOW), 0);
    EXPECT_EQ(::umount2(kSbinBefore, UMOUNT_NOFOLLOW), 0);
    EXPECT_EQ(::umount2("/run", UMOUNT_NOFOLLOW), 0);
  }

  std::string place() const { return dir_path() + "/srv-db"; }
  std::string dir_path() const { return dir().path(); }

  Ran Shell(const std::string& command) const {
    const std::string file = dir() / "said";
    Ran ran;
    ran.status = mooring::testing::Run("cd / && LC_ALL=C " + command + " >'" + file + "' 2>&1 </dev/null");
    ran.said = ReadFile(file);
    return ran;
  }
  Ran Mooring(const std::string& arguments) const { return Shell(MOORING_BINARY " " + arguments); }

  void ExpectNothingLeft() {
    EXPECT_THAT(MountsHere(), IsEmpty());
    EXPECT_THAT(client().Claims(), IsEmpty());
    EXPECT_THAT(Mooring("claims").said, Not(HasSubstr("db")));
    EXPECT_THAT(ReadFile("/run/mount/utab"), IsEmpty());
    EXPECT_TRUE(fs::is_directory(place())) << "it was there before";
  }

 private:
  static constexpr char kSbinBefore[] = "/run/sbin";

  // Replaces /sbin by a directory of links to its programs and to the helpers.
  void InstallHelpers() {
    sbin_ = fs::canonical("/sbin");
    fs::create_directory(kSbinBefore);
    ASSERT_EQ(::mount(sbin_.c_str(), kSbinBefore, nullptr, MS_BIND, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, kSbinBefore, nullptr, MS_PRIVATE, nullptr), 0);  // it keeps the programs
    const fs::path instead = "/run/sbin-with-helpers";
    fs::create_directory(instead);
    for (const auto& entry : fs::directory_iterator(kSbinBefore)) {
      fs::create_symlink(entry.path(), instead / entry.path().filename());
    }
    for (const char* helper : {"mount.csi", "umount.csi"}) {
      fs::remove(instead / helper);
      fs::create_symlink(MOORING_BINARY, instead / helper);
    }
    ASSERT_EQ(::mount(instead.c_str(), sbin_.c_str(), nullptr, MS_BIND, nullptr), 0);
  }

  std::string sbin_;
};

TEST_F(MountProgram, UmountDetaches) {
  const Ran mounted =
      Shell("mount -t csi csi:db " + place() + " -o access=single-node-writer,propagation=rslave,noatime");
  EXPECT_EQ(mounted.status, 0) << mounted.said;
  EXPECT_THAT(mounted.said, IsEmpty());
  const auto mount = MountAt(place());
  ASSERT_TRUE(mount);
  EXPECT_THAT(mount->propagation, Contains(StartsWith("master:")));
  EXPECT_TRUE(mount->Has("noatime"));
  EXPECT_EQ(TryWrite(place() + "/f", "kept"), 0);
  EXPECT_THAT(Mooring("claims").said, AllOf(HasSubstr("db"), HasSubstr("mount:" + place()), HasSubstr("write")));

  const Ran unmounted = Shell("umount " + place());
  EXPECT_EQ(unmounted.status, 0) << unmounted.said;
  ExpectNothingLeft();
  const Ran again = Shell("umount " + place());
  EXPECT_EQ(again.status, kFailed);
  EXPECT_THAT(again.said, HasSubstr("not mounted"));

  EXPECT_EQ(Shell("mount -t csi db " + place()).status, 0);
  EXPECT_EQ(ReadFile(place() + "/f"), "kept");
  EXPECT_EQ(Shell("umount " + place()).status, 0);
  ExpectNothingLeft();
}

TEST_F(MountProgram, MountsFstabOnce) {
  const std::string fstab = dir() / "fstab";
  std::ofstream(fstab) << "csi:db " << place()
                       << " csi access=single-node-writer,_netdev,nofail,x-systemd.requires=x 0 0\n";
  for (const std::string& line :
       {"-T " + fstab + " " + place(), "--fstab " + fstab + " csi:db", "-a -T " + fstab, "-a -t csi -T " + fstab}) {
    const Ran mounted = Shell("mount " + line);
    EXPECT_EQ(mounted.status, 0) << line << ": " << mounted.said;
    EXPECT_THAT(MountsAt(place()), SizeIs(1)) << line;
    const auto before = MountAt(place());
    const Ran again = Shell("mount -a -T " + fstab);
    EXPECT_EQ(again.status, 0) << again.said;
    ASSERT_THAT(MountsAt(place()), SizeIs(1)) << line;
    EXPECT_EQ(MountAt(place())->id, before->id);
    EXPECT_THAT(client().Claims(), SizeIs(1));
    const Ran unmounted = Shell("umount " + place());
    EXPECT_EQ(unmounted.status, 0) << unmounted.said;
    ExpectNothingLeft();
  }
}

TEST_F(MountProgram, WaitsForStartingManager) {
  EXPECT_EQ(process().End(SIGTERM), 0);
  std::future<Ran> mounted = std::async([&] { return Shell("mount -t csi csi:db " + place() + " -o wait=50"); });
  Start();
  const Ran ran = mounted.get();
  EXPECT_EQ(ran.status, 0) << ran.said;
  EXPECT_THAT(MountsAt(place()), SizeIs(1));
}

TEST_F(MountProgram, ExitCodesFollowMount8) {
  const Ran unknown = Shell("mount -t csi csi:none " + place());
  EXPECT_EQ(unknown.status, kFailed) << unknown.said;
  EXPECT_THAT(unknown.said, HasSubstr("none"));
  const Ran wrong = Shell("mount -t csi csi:db " + place() + " -o access=any");
  EXPECT_EQ(wrong.status, kUsage) << wrong.said;
  EXPECT_THAT(wrong.said, HasSubstr("the access mode 'any'"));
  ExpectNothingLeft();

  EXPECT_EQ(Shell("mount -f -t csi csi:db " + place()).status, 0);
  ExpectNothingLeft();

  EXPECT_EQ(Shell("mount -t csi csi:db " + place()).status, 0);
  fs::create_directory(dir() / "other");
  const Ran taken = Shell("mount -t csi csi:db " + (dir() / "other"));
  EXPECT_EQ(taken.status, kFailed) << taken.said;
  EXPECT_THAT(taken.said, HasSubstr("mount:" + place())) << "it says who holds it";
}

TEST_F(MountProgram, ReadOnlyMountTableIsReported) {
  fs::create_directories("/run/mount/utab.lock");  // a directory, so that it cannot be locked
  const Ran mounted = Shell("mount -t csi csi:db " + place());
  EXPECT_EQ(mounted.status, kNoTable) << mounted.said;
  EXPECT_THAT(mounted.said, HasSubstr("umount.csi DIRECTORY"));
  EXPECT_EQ(TryWrite(place() + "/f", "x"), 0);
  fs::remove("/run/mount/utab.lock");
  EXPECT_EQ(Shell("/sbin/umount.csi " + place()).status, 0);
  ExpectNothingLeft();
}

TEST_F(MountProgram, RemountChangesNothing) {
  const std::string fstab = dir() / "fstab";
  std::ofstream(fstab) << "csi:db " << place() << " csi defaults 0 0\n";
  const Ran early = Shell("mount -T " + fstab + " -o remount " + place());
  EXPECT_EQ(early.status, kFailed);
  EXPECT_THAT(early.said, HasSubstr("nothing is mounted at"));
  EXPECT_EQ(Shell("mount -T " + fstab + " " + place()).status, 0);
  const auto before = MountAt(place());
  const Ran same = Shell("mount -T " + fstab + " -o remount " + place());
  EXPECT_EQ(same.status, 0) << same.said;
  const Ran other = Shell("mount -T " + fstab + " -o remount,ro " + place());
  EXPECT_EQ(other.status, kFailed);
  EXPECT_THAT(other.said, HasSubstr("writable"));
  EXPECT_EQ(MountAt(place())->id, before->id);
  EXPECT_FALSE(MountAt(place())->Has("ro"));
  EXPECT_EQ(Shell("umount " + place()).status, 0);
  ExpectNothingLeft();
}

TEST_F(MountProgram, HelperUnmountsByVolumeAndAll) {
  for (const std::string words : {"csi:db", "-a"}) {
    EXPECT_EQ(Shell("mount -t csi csi:db " + place()).status, 0);
    const Ran unmounted = Shell("/sbin/umount.csi " + words);
    EXPECT_EQ(unmounted.status, 0) << unmounted.said;
    ExpectNothingLeft();
  }
}

// For umount(8) that is done: the manager releases the volume later.
TEST_F(MountProgram, UnmountedVolumeMayBeReleasedLater) {
  RunPlugin(kStrictPlugin);
  Create("strict", kStrictPlugin);
  EXPECT_EQ(Shell("mount -t csi csi:strict " + place()).status, 0);
  Inject("NodeUnpublishVolume", "fail INTERNAL out of paper");
  const Ran unmounted = Shell("umount " + place());
  EXPECT_EQ(unmounted.status, 0);
  EXPECT_THAT(unmounted.said, AllOf(HasSubstr("is unmounted, but not yet released"), HasSubstr("out of paper")));
  EXPECT_THAT(MountsAt(place()), IsEmpty());
  EXPECT_THAT(client().Claims(), SizeIs(1));
  EndFault("NodeUnpublishVolume");
  EXPECT_TRUE(Eventually([this] { return client().Claims().empty(); }));
  ExpectNothingLeft();
}

TEST_F(MountProgram, BusyVolumeStaysMounted) {
  EXPECT_EQ(Shell("mount -t csi csi:db " + place()).status, 0);
  UniqueFd user(::open(place().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Ran busy = Shell("umount " + place());
  EXPECT_EQ(busy.status, kFailed) << busy.said;
  EXPECT_THAT(busy.said, HasSubstr("busy"));
  EXPECT_THAT(client().Claims(), SizeIs(1)) << "a failed unmount keeps its claim";
  user.reset();
  std::this_thread::sleep_for(seconds(3));  // longer than the first pause before a retry
  EXPECT_THAT(MountsAt(place()), SizeIs(1)) << "a refused umount has no effect later";
  EXPECT_EQ(Shell("mount -t csi csi:db " + place()).status, 0) << "it is mounted already";
  EXPECT_EQ(Shell("umount " + place()).status, 0);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mooring::testing
