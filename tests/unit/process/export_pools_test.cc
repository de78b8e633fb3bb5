#include "plugin/process/export_pools.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include <algorithm>

#include "plugin/backends/interface/backend_type.h"
#include "plugin/catalog/store/catalog_files.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

// A file server knows hosts by their names.
TEST(HostNameOfServers, ASecondHostOfThatNameIsRefusedWhileTheFirstLives) {
  const TempDir records;
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-1"));
  ASSERT_OK(RenewHostName(records.path(), "db", "boot-1"));
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-1")) << "another plugin of the host";
  EXPECT_OK(CheckHostName(records.path(), "web", "boot-2"));
  EXPECT_THAT(CheckHostName(records.path(), "db", "boot-2"),
              FailsWith(StatusCode::kFailedPrecondition, "another host with the name 'db'"));
  for (const auto& entry : std::filesystem::directory_iterator(records.path())) {
    if (!entry.path().filename().string().starts_with("host-")) continue;
    const utimbuf old = {.actime = 1, .modtime = 1};
    ASSERT_EQ(::utime(entry.path().c_str(), &old), 0);
  }
  EXPECT_OK(CheckHostName(records.path(), "db", "boot-2")) << "it has been silent for long";
}

// `umount -a -t nfs4` takes the mount for tasks alone.
TEST(MountsOfAPool, AreBothLookedAt) {
  EXPECT_OK(CheckMounts("/proc", "/proc"));
  EXPECT_THAT(CheckMounts("/proc", "/proc/self/fd"),
              FailsWith(StatusCode::kUnavailable, "mount at '/proc/self/fd' is gone"));
  EXPECT_THAT(CheckMounts("/proc/self/fd", "/proc"),
              FailsWith(StatusCode::kUnavailable, "mount at '/proc/self/fd' is gone"));
  EXPECT_THAT(CheckMounts("/", "/proc"), FailsWith(StatusCode::kFailedPrecondition, "two directories"));
}

TEST(MountsOfAPool, HaveTheAddressesThatTheKernelShows) {
  const std::string mounts =
      "36 25 0:31 / /run rw - tmpfs tmpfs rw,mode=755,addr=none\n"
      "40 36 0:50 / /run/a/.share rw,nosuid shared:3 - nfs4 nas:/e rw,vers=4.2,softerr,addr=192.0.2.1,local_lock=none\n"
      "41 36 0:51 / /run/a/share rw - nfs4 nas:/e rw,vers=4.2,hard,clientaddr=192.0.2.9,addr=192.0.2.1\n"
      "42 41 0:52 / /run/a/share rw - nfs4 nas:/e rw,vers=4.2,hard,addr=2001:db8::1\n"
      "43 36 0:53 / /run/a/other rw - ext4 /dev/sda rw\n";
  EXPECT_EQ(AddressOfMount(mounts, "/run/a/.share"), "192.0.2.1");
  EXPECT_EQ(AddressOfMount(mounts, "/run/a/share"), "2001:db8::1") << "the upper mount";
  EXPECT_EQ(AddressOfMount(mounts, "/run/a/other"), "");
  EXPECT_EQ(AddressOfMount(mounts, "/run/a/s"), "") << "no part of a name";
}

// A pool whose two mounts are there already.
class ExportPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& place : {pool_.path, PlaceForCalls(pool_.path)}) {
      std::filesystem::create_directory(place);
      mounter_.With([&place](FakeKernel& kernel) {
        kernel.AddDirectory(place);
        ListedMount mount;
        mount.target = place;
        mount.fs_type = "nfs4";
        mount.source = "192.0.2.1:/share";
        kernel.AddMount(mount);
      });
    }
    store_->files()->AddLater("share", "0a1b2c3d", [this] { return availability_->Check(); });
  }
  std::unique_ptr<ExportPool> Start() {
    Config config;
    config.node_id = "n1";
    const auto reconcile = [this] {
      ++reconciled_;
      return absl::OkStatus();
    };
    return std::make_unique<ExportPool>(
        ExportPool::Parts{config, "boot", pool_, availability_, *resolver_, mounter_, *store_, locks_, reconcile});
  }
  absl::Status Told(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    absl::Status status = availability_->Check();
    while (Message(status).find(text) == std::string::npos && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      status = availability_->Check();
    }
    return status;
  }

  std::atomic<int> reconciled_ = 0;
  TempDir own_, base_;
  PoolConfig pool_{.name = "share",
                   .kind = BackendKind::kNfs,
                   .path = base_ / "share",
                   .own_keys = {{"server", "192.0.2.1"}, {"export", "/share"}}};
  FakeMounter mounter_;
  std::shared_ptr<Availability> availability_ = std::make_shared<Availability>("share");
  std::unique_ptr<CatalogStore> store_ = *CatalogStore::Open(own_ / "catalog.db");
  KeyedLocks locks_;
  std::unique_ptr<Resolver> resolver_ = *Resolver::Start({"192.0.2.1"}, {});
};

TEST_F(ExportPoolTest, AnEmptyExportInPlaceOfThePoolIsNotTouched) {
  const auto before = CatalogStore::Open(own_ / "catalog.db");
  (*before)->files()->AddLater("share", "0a1b2c3d", [] { return absl::OkStatus(); });
  ASSERT_OK((*before)->files()->OpenLater(own_ / "share.db", "share", [] { return absl::OkStatus(); }));
  const auto pool = Start();
  EXPECT_THAT(Told("identity"), FailsWith(StatusCode::kUnavailable, "192.0.2.1:/share: this is not the directory"));
  EXPECT_TRUE(std::filesystem::is_empty(PlaceForCalls(pool_.path)));
}

// A use whose end fails would stay on record until the next outage.
TEST_F(ExportPoolTest, WorkThatACallLeavesIsDoneSoon) {
  std::ofstream(PlaceForCalls(pool_.path) + "/.mooring") << "no directory, so it is not opened";
  const auto pool = Start();
  EXPECT_EQ(reconciled_, 0);
  availability_->LeaveWork();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (reconciled_ == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(reconciled_, 1);
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

TEST(ResolverTest, ANameWithoutAnAnswerHoldsNoOther) {
  const std::vector<pid_t> before = Children();
  const auto resolver = Resolver::Start({"stopped.invalid", "localhost", "stopped.invalid"}, {});
  ASSERT_OK(resolver);
  std::vector<pid_t> asked = Children();
  std::erase_if(asked, [&](pid_t child) { return std::find(before.begin(), before.end(), child) != before.end(); });
  ASSERT_THAT(asked, SizeIs(2));
  ASSERT_EQ(::kill(asked.front(), SIGSTOP), 0);
  absl::Status stopped;
  std::atomic<bool> has_ended = false;
  std::thread waiting([&] {
    stopped = (*resolver)->Find("stopped.invalid").status();
    has_ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // now it waits
  EXPECT_OK((*resolver)->Find("localhost"));
  EXPECT_FALSE(has_ended);
  ASSERT_EQ(::kill(asked.front(), SIGCONT), 0);
  waiting.join();
  EXPECT_THAT(stopped, FailsWith(StatusCode::kUnavailable, "find the address of 'stopped.invalid'"));
  ASSERT_EQ(::kill(asked.back(), SIGKILL), 0);
  ASSERT_EQ(::waitpid(asked.back(), nullptr, 0), asked.back());
  EXPECT_THAT((*resolver)->Find("localhost").status(), FailsWith(StatusCode::kUnavailable, "start the plugin again"));
}

// It reads answers of the network.
TEST(ResolverTest, HasNoPrivileges) {
  const std::vector<pid_t> before = Children();
  const auto resolver = Resolver::Start({"localhost"}, {});
  ASSERT_OK(resolver);
  ASSERT_OK((*resolver)->Find("localhost"));
  std::vector<pid_t> asked = Children();
  std::erase_if(asked, [&](pid_t child) { return std::find(before.begin(), before.end(), child) != before.end(); });
  ASSERT_THAT(asked, SizeIs(1));
  std::ifstream file("/proc/" + std::to_string(asked.front()) + "/status");
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  const uid_t user = ::geteuid() == 0 ? 65534 : ::geteuid();
  EXPECT_THAT(status, HasSubstr("Uid:\t" + std::to_string(user) + "\t" + std::to_string(user)));
  EXPECT_THAT(status, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
}

TEST(ResolverTest, FindsTheAddressesOfItsNamesAlone) {
  const auto resolver = Resolver::Start({"localhost", "192.0.2.1"}, {});
  ASSERT_OK(resolver);
  EXPECT_THAT(*(*resolver)->Find("192.0.2.1"), ElementsAre("192.0.2.1"));
  EXPECT_THAT(*(*resolver)->Find("localhost"), Not(IsEmpty()));
  EXPECT_THAT((*resolver)->Find("elsewhere").status(), FailsWith(StatusCode::kUnavailable, "'elsewhere'"));
}

}  // namespace
}  // namespace mooring::testing
