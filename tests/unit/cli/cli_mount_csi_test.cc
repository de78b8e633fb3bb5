// mount.csi and umount.csi as mount(8) and umount(8) call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"
#include "cli/mount_csi/mount_csi.h"
#include "manager.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

namespace v1 = manager::v1;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MountCsiTest : public ::testing::Test {
 protected:
  explicit MountCsiTest(FakeServer::Start start = FakeServer::Start::kNow) : manager_(start) {
    manager_.script().Reply<v1::AttachReply>("done { allocation: 'a' }");
    manager_.script().Reply<v1::DetachReply>("done: true");
  }

  std::string Directory() const { return manager_.directory() + "/db"; }

  Result Mount(const std::string& options, const std::string& letters = "") {
    return RunLine("/sbin/mount.csi db " + Directory() + " " + letters + " -o manager=" + manager_.socket() + "," +
                   options);
  }

  FakeServer manager_;
};

TEST_F(MountCsiTest, ParsesFstabOptions) {
  manager_.script().Reply<v1::GetVolumeResponse>("volume { plugin: 'p' }");
  const Result result = Mount(
      "rw,plugin=p,access=single-node-writer,propagation=rslave,ro,for=web,wait=5,_netdev,nofail,noauto,"
      "x-systemd.requires=mooring-manager.service,noatime,namespace=prod,per-alloc=2");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out + result.err, "");
  manager_.script().ExpectLast(
      "AttachRequest",
      R"(volume { namespace: "prod" id: "db[2]" } allocation: "web" read_only: true propagation: PROPAGATION_SLAVE
         capability { access: SINGLE_NODE_WRITER attachment: FILE_SYSTEM } options { flags: "noatime" }
         job { per_alloc: true } until_reboot: true attach_path: ")" +
          Directory() + "\"");
}

// mount(8) does not pass dev and suid on.
TEST_F(MountCsiTest, ParsesMountFlagOption) {
  EXPECT_EQ(Mount("mount-flag=dev,mount-flag=suid,noatime").status, 0);
  manager_.script().ExpectLast(
      "AttachRequest",
      "volume { id: 'db' } allocation: 'mount:" + Directory() +
          "' options { flags: 'dev' flags: 'suid' flags: 'noatime' } until_reboot: true attach_path: '" + Directory() +
          "'");
}

TEST_F(MountCsiTest, EachMountPointIsAnAllocation) {
  EXPECT_EQ(Mount("defaults").status, 0);
  manager_.script().ExpectLast("AttachRequest", "volume { id: 'db' } allocation: 'mount:" + Directory() +
                                                    "' until_reboot: true attach_path: '" + Directory() + "'");
}

// mount(8) makes "/home" of "home" at /, but leaves "csi:home" alone.
TEST_F(MountCsiTest, SourceIsANameNotAPath) {
  const std::string rest = " " + Directory() + " -o manager=" + manager_.socket();
  EXPECT_EQ(RunLine("mount.csi csi:db" + rest).status, 0);
  manager_.script().ExpectLast("AttachRequest", "volume { id: 'db' } allocation: 'mount:" + Directory() +
                                                    "' until_reboot: true attach_path: '" + Directory() + "'");
  const Result path = RunLine("mount.csi /home" + rest);
  EXPECT_EQ(path.status, mount_csi::kUsage);
  EXPECT_THAT(path.err, HasSubstr("write csi:NAME"));
}

TEST_F(MountCsiTest, FakeMountsNothing) {
  EXPECT_EQ(Mount("ro", "-f -n").status, 0);
  EXPECT_EQ(manager_.script().RequestCount(), 0U);
}

TEST_F(MountCsiTest, OtherPluginIsRefused) {
  manager_.script().Reply<v1::GetVolumeResponse>("volume { plugin: 'p' }");
  const Result result = Mount("plugin=q");
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_THAT(result.err, HasSubstr("mount.csi: the volume 'db' belongs to the plugin 'p', not to 'q'"));
}

TEST_F(MountCsiTest, UsageErrorHasTheStatusOfMount) {
  for (const std::string line :
       {"db", "db /srv x", "db /srv -x", "db /srv -o", "db /srv -N /proc/1/ns/mnt", "/root/db /srv", "csi: /srv",
        "db /srv -o wait=soon", "db /srv -o access=rwo", "db /srv -o for=", "db /srv -o propagation=sideways"}) {
    const Result result = RunLine("mount.csi " + line);
    EXPECT_EQ(result.status, mount_csi::kUsage) << result.err;
    EXPECT_THAT(result.err, HasSubstr("Usage: mount.csi csi:VOLUME DIRECTORY"));
  }
}

TEST_F(MountCsiTest, UnavailableIsRetried) {
  manager_.script().Reply<v1::AttachReply>("done { allocation: 'a' }");
  manager_.script().FailOnce<v1::AttachReply>(grpc::StatusCode::UNAVAILABLE, "the plugin 'p' has no healthy instance");
  EXPECT_EQ(Mount("wait=20").status, 0);
  EXPECT_EQ(manager_.script().Requests<v1::AttachRequest>().size(), 2U);

  manager_.script().Fail<v1::AttachReply>(grpc::StatusCode::UNAVAILABLE, "the plugin 'p' has no healthy instance");
  const Result result = Mount("wait=0.1");
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_THAT(result.err, HasSubstr("no healthy instance"));
}

TEST_F(MountCsiTest, TellsOnceWhyItWaits) {
  manager_.script().Fail<v1::AttachReply>(grpc::StatusCode::UNAVAILABLE, "the plugin 'p' has no healthy instance");
  const Result result = Mount("wait=2");
  EXPECT_THAT(result.err, HasSubstr("mount.csi: waiting up to 2 s: Attach: UNAVAILABLE (14): the plugin 'p'"));
  EXPECT_EQ(result.err.find("waiting"), result.err.rfind("waiting"));
}

TEST_F(MountCsiTest, RemountOfNothingIsRefused) {
  const Result result = Mount("remount,ro");
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_THAT(result.err, HasSubstr("nothing is mounted at '" + Directory() + "'"));
  EXPECT_EQ(manager_.script().Requests<v1::AttachRequest>().size(), 0U);
}

TEST_F(MountCsiTest, OtherErrorsAreNotRetried) {
  manager_.script().Fail<v1::AttachReply>(grpc::StatusCode::FAILED_PRECONDITION, "held by 'web-1'");
  const Result result = Mount("wait=60");
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_EQ(manager_.script().Requests<v1::AttachRequest>().size(), 1U);
  EXPECT_THAT(result.err, HasSubstr("held by 'web-1'"));
}

class MountCsiAtBootTest : public MountCsiTest {
 protected:
  MountCsiAtBootTest() : MountCsiTest(FakeServer::Start::kLater) {}
};

TEST_F(MountCsiAtBootTest, WaitsForAStartingManager) {
  std::thread boot([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // any: the other side may be there before or after
    manager_.Serve();
  });
  EXPECT_EQ(Mount("wait=20").status, 0);
  boot.join();
}

TEST_F(MountCsiAtBootTest, TellsAtOnceThatTheManagerIsMissing) {
  const Result result = Mount("wait=1");
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_THAT(result.err, HasSubstr("mount.csi: waiting up to 1 s: there is no socket at '" + manager_.socket() +
                                    "': start the manager (systemctl start mooring-manager), or name its socket with "
                                    "-o manager=SOCKET"));
}

// Systemd listens, but the manager does not start.
TEST_F(MountCsiAtBootTest, TellsThatTheManagerDoesNotAnswer) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  manager_.socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(silent.get(), 64), 0);
  for (const std::string line : {"mount.csi db ", "umount.csi "}) {
    const Result result = RunLine(line + Directory() + " -o wait=2.5,manager=" + manager_.socket());
    EXPECT_EQ(result.status, mount_csi::kFailed);
    EXPECT_THAT(result.err, HasSubstr("mount.csi: waiting up to 1 s: the manager does not answer"));
    EXPECT_THAT(result.err, HasSubstr("no answer within 2.5 s; -o wait= allows more"));
  }
}

TEST_F(MountCsiAtBootTest, DoesNotWaitForWhatCannotCome) {
  std::ofstream(manager_.socket()) << "no socket";
  const Result result = Mount("wait=60");
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_THAT(result.err, AllOf(HasSubstr("is not a socket"), Not(HasSubstr("waiting"))));
}

class UmountCsiTest : public MountCsiTest {
 protected:
  void List(const std::string& attachments) { manager_.script().Reply<v1::ListAttachmentsResponse>(attachments); }
  Result Unmount(const std::string& words) {
    return RunLine("umount.csi " + words + " -o manager=" + manager_.socket());
  }
  std::vector<std::string> Detached() {
    std::vector<std::string> paths;
    for (const auto& each : manager_.script().Requests<v1::DetachRequest>()) paths.push_back(each.attach_path());
    return paths;
  }
};

constexpr char kTwoMounts[] =
    "attachments { attach_path: '/none/a' until_reboot: true } attachments { attach_path: '/none/a/b' until_reboot: "
    "true } attachments { attach_path: '/none/task' } attachments { until_reboot: true }";

TEST_F(UmountCsiTest, AllIsWhatMountHasMounted) {
  List(kTwoMounts);
  EXPECT_EQ(Unmount("-a").status, 0);
  EXPECT_THAT(Detached(), ElementsAre("/none/a/b", "/none/a")) << "first what is below another";
  EXPECT_EQ(Unmount("-a /none/a").status, mount_csi::kUsage);
}

TEST_F(UmountCsiTest, VolumeAtTwoDirectoriesIsRefused) {
  List(kTwoMounts);
  const Result two = Unmount("csi:db");
  EXPECT_EQ(two.status, mount_csi::kFailed);
  EXPECT_THAT(two.err, HasSubstr("'csi:db' is mounted at /none/a/b, /none/a: give one of the directories"));
  manager_.script().ExpectLast("ListAttachmentsRequest", "volume { id: 'db' }");
  EXPECT_THAT(Detached(), IsEmpty());
}

TEST_F(UmountCsiTest, FindsTheDirectoryOfAVolume) {
  List("attachments { attach_path: '/none/a' until_reboot: true } attachments { attach_path: '/none/task' }");
  EXPECT_EQ(Unmount("csi:db").status, 0);
  EXPECT_THAT(Detached(), ElementsAre("/none/a"));
}

TEST_F(UmountCsiTest, VolumeOfATaskIsNotMounted) {
  List("attachments { attach_path: '/none/task' }");
  const Result none = Unmount("csi:db");
  EXPECT_EQ(none.status, mount_csi::kFailed);
  EXPECT_THAT(none.err, HasSubstr("has mounted 'csi:db' nowhere"));
  EXPECT_THAT(Detached(), IsEmpty());
}

TEST_F(MountCsiTest, UmountDetachesByThePath) {
  const Result result =
      RunLine("/usr/sbin/umount.csi " + Directory() + " -v -r -t csi -o manager=" + manager_.socket());
  EXPECT_EQ(result.status, 0) << result.err;
  manager_.script().ExpectLast("DetachRequest", "attach_path: '" + Directory() + "' must_exist: true");
}

TEST_F(MountCsiTest, RemainingMountIsAnError) {
  const Result result = RunLine("umount.csi /proc -o manager=" + manager_.socket());
  EXPECT_EQ(result.status, mount_csi::kFailed);
  EXPECT_THAT(result.err, HasSubstr("'/proc' is still mounted"));
}

TEST(MountCsiNameTest, KnowsTheHelperNames) {
  EXPECT_NE(mount_csi::HelperNamed("mount.csi"), nullptr);
  EXPECT_NE(mount_csi::HelperNamed("/sbin/umount.csi"), nullptr);
  for (const char* name : {"mooring", "/bin/mooring", "", "mount", "mount.csi/", "xmount.csi"}) {
    EXPECT_EQ(mount_csi::HelperNamed(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace mooring::cli
