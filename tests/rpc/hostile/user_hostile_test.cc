// What a process of the plugin's own user (--user) could have prepared for a start as root.
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "tests/rpc/hostile/user_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

// Another process of the same user.
class HostileOwner : public UserTest {
 protected:
  void StartWithPoolIn(const std::string& path) {
    pool_ = path;
    as_root_.insert(as_root_.end(), {"--pool", "name=inside,backend=image,path=" + path});
    StartAs(kText);
    driver().Disconnect();
    EXPECT_EQ(plugin().Terminate(), 0);
  }
  // Done by the user; 0, or the errno.
  static int AsUser(const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(kGroup, kGroup, kGroup) != 0 ||
          ::setresuid(kUser, kUser, kUser) != 0) {
        ::_exit(255);
      }
      ::_exit(work() ? 0 : errno);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
  void ExpectRefused(const std::string& why) {
    plugin().Launch();
    EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe()); }, kLong)) << plugin().Log();
    EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, why));
    driver().Disconnect();
    EXPECT_EQ(plugin().Terminate(), 0);
  }
  std::string pool_;
};

TEST_F(HostileOwner, WhoPutsALinkInThePlaceOfAPoolGetsNothingOfRoots) {
  StartWithPoolIn(state_dir() + "/fast");
  const std::string roots = MakeDirectories("roots"), aside = state_dir() + "/aside";
  ASSERT_EQ(AsUser([&] { return ::rename(pool_.c_str(), aside.c_str()) == 0; }), 0);
  ASSERT_EQ(AsUser([&] { return ::symlink(roots.c_str(), pool_.c_str()) == 0; }), 0);
  ExpectRefused("leads through the symbolic link 'fast', in a directory where others than root may write");
  EXPECT_EQ(StatOf(roots).st_uid, 0U);
  ASSERT_EQ(::unlink(pool_.c_str()), 0);
  ASSERT_EQ(::rename(aside.c_str(), pool_.c_str()), 0);
  StartAs(kText);
}

// As /var/local is on Debian: root's group may write there.
TEST_F(HostileOwner, WhereALinkLeadsNoModeIsChanged) {
  StartWithPoolIn(state_dir() + "/fast");
  const std::string roots = MakeDirectories("roots"), aside = state_dir() + "/aside";
  ASSERT_EQ(::chmod(roots.c_str(), 02775), 0);
  ASSERT_EQ(AsUser([&] { return ::rename(pool_.c_str(), aside.c_str()) == 0; }), 0);
  ASSERT_EQ(AsUser([&] { return ::symlink(roots.c_str(), pool_.c_str()) == 0; }), 0);
  ExpectRefused("leads through the symbolic link 'fast'");
  EXPECT_EQ(StatOf(roots).st_mode & 07777U, 02775U);
  ASSERT_EQ(::unlink(pool_.c_str()), 0);
  ASSERT_EQ(::rename(aside.c_str(), pool_.c_str()), 0);
  StartAs(kText);
}

TEST_F(HostileOwner, ALinkFurtherUpOrBehindARelativeOneIsSeen) {
  ASSERT_TRUE(fs::create_directories(state_dir() + "/a/b"));
  ASSERT_EQ(::chmod(state_dir().c_str(), 0700), 0);
  StartWithPoolIn(state_dir() + "/a/b/fast");
  const std::string roots = MakeDirectories("roots/b");
  ASSERT_EQ(AsUser([&] { return ::rename((state_dir() + "/a").c_str(), (state_dir() + "/x").c_str()) == 0; }), 0);
  ASSERT_EQ(AsUser([&] { return ::symlink("../roots", (state_dir() + "/a").c_str()) == 0; }), 0);
  WorkAs(kText);
  ExpectRefused("leads through the symbolic link 'a'");
  EXPECT_EQ(StatOf(roots).st_uid, 0U);
  EXPECT_FALSE(fs::exists(roots + "/fast"));
  ASSERT_EQ(::unlink((state_dir() + "/a").c_str()), 0);
  ASSERT_EQ(::rename((state_dir() + "/x").c_str(), (state_dir() + "/a").c_str()), 0);
  StartAs(kText);
}

// A directory such as /srv that was named by mistake stays root's.
TEST_F(HostileOwner, ADirectoryOfRootsIsNotGivenAway) {
  const std::string roots = MakeDirectories("roots");
  StartAs("");
  driver().Disconnect();
  EXPECT_EQ(plugin().Terminate(), 0);
  GiveDirectoriesTo(kText);
  for (const std::string kind : {"image", "directory"}) {
    WorkAs(kText);
    plugin().options().flags.insert(plugin().options().flags.end(),
                                    {"--pool", "name=roots,backend=" + kind + ",path=" + roots});
    ExpectRefused("pool roots: the directory of volumes '" + roots + "' belongs to user 0:0");
    EXPECT_EQ(StatOf(roots).st_uid, 0U);
  }
  ASSERT_EQ(::chown(roots.c_str(), kUser, kGroup), 0);
  as_root_.insert(as_root_.end(), {"--pool", "name=roots,backend=image,path=" + roots});
  StartAs(kText);
}

}  // namespace
}  // namespace mooring::testing
