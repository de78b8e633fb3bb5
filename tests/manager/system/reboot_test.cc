// The manager after a reboot of its host: directories, files, sockets and records of the earlier boot still exist.
#include "tests/support/reboot.h"

#include <signal.h>

#include "tests/manager/system/manager_test.h"
#include "tests/support/mount_tests.h"

namespace mooring::testing {
namespace {

class ManagerReboot : public ManagerTest {
 protected:
  void PowerOff(bool empty_run = true) {
    process().End(SIGKILL);
    std::vector<std::string> run;
    if (empty_run) run.push_back(dir() / "run");
    ASSERT_NO_FATAL_FAILURE(Reboot(dir().path(), run));
    ASSERT_THAT(MountsBelow(dir().path()), IsEmpty());
  }

  void ExpectBack(const std::string& path, const std::string& text) {
    EXPECT_TRUE(Eventually([&] { return MountsAt(path).size() == 1 && ReadFile(path + "/f") == text; }, seconds(30)))
        << process().Log();
  }
};

// /run is a directory on disk here, so the files there of the last boot are left.
TEST_F(ManagerReboot, AttachesAgainWithRunOnDisk) {
  RunPlugin(kOurPlugin);
  Create("made", kOurPlugin);
  Create("given", kOurPlugin);
  fs::create_directory(dir() / "given");
  const std::string made = Attached("made"), given = Attached("given"), disk = dir() / "disk";
  ASSERT_OK(client().Attach(CreateBlock("disk")));
  EXPECT_EQ(TryWrite(made + "/f", "one"), 0);
  EXPECT_EQ(TryWrite(given + "/f", "two"), 0);
  EXPECT_EQ(TryWrite(disk, "three"), 0);
  for (int boot = 0; boot < 2; ++boot) {
    ASSERT_NO_FATAL_FAILURE(PowerOff(/*empty_run=*/false));
    ASSERT_TRUE(fs::is_directory(made) && fs::is_regular_file(disk)) << "left by the last boot";
    ASSERT_NO_FATAL_FAILURE(Start());
    ExpectBack(made, "one");
    ExpectBack(given, "two");
    EXPECT_TRUE(Eventually([&] { return ReadFile(disk).starts_with("three"); }, seconds(30))) << process().Log();
    EXPECT_THAT(client().Claims(), SizeIs(3));
    EXPECT_THAT(MountsAt(root()), SizeIs(RootIsShared() ? 0 : 1));
  }
}

// Detaches and deletes before anything is mounted again.
TEST_F(ManagerReboot, DetachAndDeleteBeforeRestore) {
  RunPlugin(kOurPlugin);
  Create("db", kOurPlugin);
  const std::string path = Attached("db");
  ASSERT_NO_FATAL_FAILURE(PowerOff());
  ASSERT_NO_FATAL_FAILURE(Start());
  // In etcd the claim stays until the lease of the boot before has ended.
  const seconds patience(IsOverEtcd() ? 30 : 0);
  EXPECT_TRUE(Eventually([&] { return client().Detach("web-1", "db").ok(); }, patience));
  EXPECT_OK(client().Delete("db"));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_THAT(MountsHere(), IsEmpty());
  EXPECT_THAT(LoopsOver(dir().path()), IsEmpty());
}

// A file in the bare directory is neither hidden nor removed.
TEST_F(ManagerReboot, FilledAttachPathWaitsUntilEmptied) {
  RunPlugin(kOurPlugin);
  Create("db", kOurPlugin);
  const std::string path = Attached("db");
  EXPECT_EQ(TryWrite(path + "/f", "of the volume"), 0);
  ASSERT_NO_FATAL_FAILURE(PowerOff());
  std::ofstream(path + "/stray") << "of the host";
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_TRUE(Eventually(
      [&] {
        const auto all = client().Attachments();
        return all.size() == 1 && all[0].problem().find("not empty") != std::string::npos;
      },
      seconds(30)));
  EXPECT_EQ(ReadFile(path + "/stray"), "of the host");
  fs::remove(path + "/stray");
  ExpectBack(path, "of the volume");
}

}  // namespace
}  // namespace mooring::testing
