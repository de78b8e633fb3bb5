// A hostile process with the user of the plugin (--user) changes directories before the plugin starts as root.
#include <grp.h>
#include <sys/wait.h>

#include "tests/rpc/hostile/user_test.h"

namespace mooring::testing {
namespace {

class HostileOwner : public UserTest {
 protected:
  void StartWithPoolIn(const std::string& path) {
    pool_ = path;
    as_root_.insert(as_root_.end(), {"--pool", "name=inside,backend=image,path=" + path});
    StartAs(kText);
    StopPlugin();
  }
  // Does `work` as the user. Returns 0 or the errno.
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
    EXPECT_TRUE(Eventually([this] { return absl::IsFailedPrecondition(Probe().status); }, kLong)) << plugin().Log();
    EXPECT_THAT(Probe(), FailsWith(Code::kFailedPrecondition, why));
    StopPlugin();
  }
  // The user puts a link to a directory of root in the place of `path`, until Restore.
  void ReplaceByLink(const std::string& path, const std::string& link_to) {
    replaced_ = path;
    ASSERT_EQ(AsUser([&] { return ::rename(path.c_str(), (path + "-aside").c_str()) == 0; }), 0);
    ASSERT_EQ(AsUser([&] { return ::symlink(link_to.c_str(), path.c_str()) == 0; }), 0);
  }
  void Restore() {
    ASSERT_EQ(::unlink(replaced_.c_str()), 0);
    ASSERT_EQ(::rename((replaced_ + "-aside").c_str(), replaced_.c_str()), 0);
    StartAs(kText);
  }
  std::string pool_, replaced_;
};

TEST_F(HostileOwner, LinkInPlaceOfAPoolChangesNoOwnerAndNoMode) {
  StartWithPoolIn(state_dir() + "/fast");
  const std::string roots = MakeDirectories("roots");
  ASSERT_EQ(::chmod(roots.c_str(), 02775), 0);  // the mode of /var/local on Debian: its group may write
  ReplaceByLink(pool_, roots);
  ExpectRefused("leads through the symbolic link 'fast', in a directory where others than root may write");
  EXPECT_EQ(StatOf(roots).st_uid, 0U);
  EXPECT_EQ(StatOf(roots).st_mode & 07777U, 02775U);
  Restore();
}

TEST_F(HostileOwner, LinkInAParentDirectoryIsFound) {
  ASSERT_TRUE(fs::create_directories(state_dir() + "/a/b"));
  ASSERT_EQ(::chmod(state_dir().c_str(), 0700), 0);
  StartWithPoolIn(state_dir() + "/a/b/fast");
  const std::string roots = MakeDirectories("roots/b");
  ReplaceByLink(state_dir() + "/a", "../roots");
  WorkAs(kText);
  ExpectRefused("leads through the symbolic link 'a'");
  EXPECT_EQ(StatOf(roots).st_uid, 0U);
  EXPECT_FALSE(fs::exists(roots + "/fast"));
  Restore();
}

// A directory such as /srv may be named by mistake.
TEST_F(HostileOwner, DirectoryOfRootKeepsItsOwner) {
  const std::string roots = MakeDirectories("roots");
  StartAs("");
  StopPlugin();
  GiveDirectoriesTo(kText);
  for (const std::string kind : {"image", "directory"}) {
    WorkAs(kText);
    AddFlags({"--pool", "name=roots,backend=" + kind + ",path=" + roots});
    ExpectRefused("pool roots: the directory of volumes '" + roots + "' belongs to user 0:0");
    EXPECT_EQ(StatOf(roots).st_uid, 0U);
  }
  ASSERT_EQ(::chown(roots.c_str(), kUser, kGroup), 0);
  as_root_.insert(as_root_.end(), {"--pool", "name=roots,backend=image,path=" + roots});
  StartAs(kText);
}

}  // namespace
}  // namespace mooring::testing
