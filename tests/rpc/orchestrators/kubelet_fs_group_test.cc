// The fsGroup and fsGroupChangePolicy of a pod, with the fake kubelet (K24).
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file/unique_fd.h"
#include "tests/rpc/orchestrators/registered_kubelet.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Policy = FsGroup::ChangePolicy;

constexpr gid_t kFirst = 4711, kSecond = 4712;
constexpr char kMountGroup[] = "VOLUME_MOUNT_GROUP";

// Writes as a process of a pod: not root, in the group of the pod. Opens the directory before, because only root may
// enter its parents.
int WriteAs(uid_t user, gid_t group, const std::string& directory, const std::string& name) {
  const UniqueFd root(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(1, &group) != 0 || ::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0) {
      ::_exit(255);
    }
    const UniqueFd file(::openat(root.get(), name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    ::_exit(file.ok() && ::write(file.get(), "x", 1) == 1 ? 0 : errno);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

gid_t GroupOf(const std::string& path) { return StatOf(path).st_gid; }

class KubeletFsGroup : public RegisteredKubelet {
 protected:
  PodVolume PodIn(gid_t group, const std::string& pod, const std::string& id, AccessMode::Mode mode = kReadWriteOnce,
                  Policy policy = Policy::kAlways) {
    PodVolume volume = PodOf(pod, id, Mount("ext4", mode));
    volume.fs_group = FsGroup{.group = group, .policy = policy};
    return volume;
  }
  // A pod of the first group writes a file, also in a new directory, and ends.
  void FirstPodWrites(const std::string& id, AccessMode::Mode mode = kReadWriteOnce) {
    const PodVolume pod = PodIn(kFirst, "uid-1", id, mode);
    Begin(pod);
    const std::string target = kubelet().TargetPath(pod);
    ASSERT_EQ(WriteAs(1001, kFirst, target, "file"), 0);
    ASSERT_EQ(::mkdir((target + "/dir").c_str(), 0755), 0);
    ASSERT_EQ(::chown((target + "/dir").c_str(), 1001, kFirst), 0);
    ASSERT_EQ(WriteAs(1001, kFirst, target + "/dir", "inner"), 0);
    End(pod);
  }
  void SecondPodWritesTheSame(const PodVolume& pod) {
    Begin(pod);
    const std::string target = kubelet().TargetPath(pod);
    EXPECT_EQ(WriteAs(1002, kSecond, target, "file"), 0);
    EXPECT_EQ(WriteAs(1002, kSecond, target + "/dir", "inner"), 0);
    EXPECT_EQ(WriteAs(1002, kSecond, target, "new"), 0);
    EXPECT_EQ(GroupOf(target + "/new"), kSecond) << "the root is setgid";
    EXPECT_EQ(WriteAs(1003, 4713, target, "file"), EACCES) << "a process of neither group";
    End(pod);
  }
  std::string Offered() { return driver().Send(csi::v1::NodeGetCapabilitiesRequest())->DebugString(); }
};

TEST_F(KubeletFsGroup, K24_PodOfAnotherGroupWritesTheSameFiles) {
  for (const auto mode : {kReadWriteOnce, AccessMode::SINGLE_NODE_SINGLE_WRITER}) {
    SCOPED_TRACE(AccessMode::Mode_Name(mode));
    const std::string id = Created(Mount("ext4", mode));
    FirstPodWrites(id, mode);
    SecondPodWritesTheSame(PodIn(kSecond, "uid-2", id, mode));
  }
}

TEST_F(KubeletFsGroup, K24_RestoredSnapshotIsWrittenByAnotherGroup) {
  const std::string id = Created(Mount("ext4", kReadWriteOnce));
  FirstPodWrites(id);
  const std::string restored =
      Created(CopyRequest("restored", Snapped("snapshot-1", id), Mount("ext4", kReadWriteOnce)));
  SecondPodWritesTheSame(PodIn(kSecond, "uid-2", restored));
}

TEST_F(KubeletFsGroup, K24_OnRootMismatchKeepsFilesBelowAMatchingRoot) {
  const std::string id = Created(Mount("ext4", kReadWriteOnce));
  FirstPodWrites(id);
  const PodVolume same = PodIn(kFirst, "uid-2", id, kReadWriteOnce, Policy::kOnRootMismatch);
  Begin(same);
  const std::string inner = kubelet().TargetPath(same) + "/dir/inner";
  ASSERT_EQ(::chown(inner.c_str(), 0, 0), 0);
  End(same);
  Begin(same);
  EXPECT_EQ(GroupOf(inner), 0U) << "the files were changed although the root matches";
  End(same);
  SecondPodWritesTheSame(PodIn(kSecond, "uid-3", id, kReadWriteOnce, Policy::kOnRootMismatch));
}

TEST_F(KubeletFsGroup, K24_MountGroupIsOfferedWithAFlag) {
  EXPECT_THAT(Offered(), Not(HasSubstr(kMountGroup)));
  plugin().options().flags.push_back("--volume-mount-group");
  Restart(SIGTERM);
  ASSERT_TRUE(kubelet().AwaitRegistered());
  EXPECT_THAT(Offered(), HasSubstr(kMountGroup));
  const std::string id = Created(Mount("ext4", kReadWriteOnce));
  FirstPodWrites(id);
  const PodVolume second = PodIn(kSecond, "uid-2", id);
  Begin(second);
  const std::string target = kubelet().TargetPath(second);
  EXPECT_EQ(WriteAs(1002, kSecond, target, "new"), 0) << "the root belongs to the group";
  EXPECT_EQ(WriteAs(1002, kSecond, target, "file"), EACCES) << "the plugin changes no files in the volume";
}

// Kubelet asks for the capabilities before each call. So calls for running pods come without the group then.
TEST_F(KubeletFsGroup, K24_PodsContinueWithoutTheFlag) {
  plugin().options().flags.push_back("--volume-mount-group");
  Restart(SIGTERM);
  ASSERT_TRUE(kubelet().AwaitRegistered());
  const PodVolume pod = PodIn(kFirst, "uid-1", Created(Mount("ext4", kReadWriteOnce)));
  Begin(pod);
  plugin().options().flags.pop_back();
  Restart(SIGTERM);
  kubelet().Stop();
  kubelet().Start();
  ASSERT_TRUE(kubelet().AwaitRegistered());
  EXPECT_OK(kubelet().SetUp(pod));
  EXPECT_EQ(WriteAs(1001, kFirst, kubelet().TargetPath(pod), "file"), 0);
}

}  // namespace
}  // namespace mooring::testing
