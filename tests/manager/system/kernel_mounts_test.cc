// The manager on a real kernel: broken and busy mounts, and propagation to other namespaces.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/unique_fd.h"
#include "tests/manager/system/manager_test.h"
#include "tests/rpc/support/peer_namespace.h"
#include "tests/support/fuse_server.h"
#include "tests/support/mount_tests.h"

namespace mooring::testing {
namespace {

class KernelMounts : public ManagerTest {
 protected:
  void SetUp() override {
    Start();
    RunPlugin(kStrictPlugin);
    Create("db", kStrictPlugin);
  }

  v1::Attachment AttachmentOf(const std::string& id) {
    for (const v1::Attachment& attachment : client().Attachments()) {
      if (attachment.volume().id() == id) return attachment;
    }
    ADD_FAILURE() << id << " is not attached";
    return {};
  }

  // A FUSE mount with a dead server (ENOTCONN), like a lost network filesystem.
  static void MountBroken(const std::string& path) {
    UniqueFd server(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(server.ok()) << "these tests need FUSE in the kernel";
    const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", server.get());
    ASSERT_EQ(::mount("mooring-test", path.c_str(), "fuse", 0, options.c_str()), 0) << path;
    server.reset();
    struct stat status = {};
    ASSERT_EQ(::stat((path + "/x").c_str(), &status), -1);
    ASSERT_EQ(errno, ENOTCONN);
  }

  static void Replace(const std::string& path) {
    ASSERT_EQ(::umount2(path.c_str(), UMOUNT_NOFOLLOW), 0) << path;
    MountBroken(path);
  }

  bool AnyBroken() const {
    for (const MountLine& line : MountsHere()) {
      if (line.fs_type == "fuse") return true;
    }
    return false;
  }

  v1::AttachRequest Request(v1::Propagation propagation) const {
    v1::AttachRequest request = RequestFor("db", "web-1", dir() / "db");
    request.set_propagation(propagation);
    return request;
  }
};

TEST_F(KernelMounts, RestartReplacesBrokenTarget) {
  const std::string path = Attached("db");
  ASSERT_EQ(TryWrite(path + "/f", "kept"), 0);
  const std::string target = AttachmentOf("db").target_path();
  process().End(SIGTERM);
  ASSERT_EQ(::umount2(path.c_str(), UMOUNT_NOFOLLOW), 0);
  Replace(target);
  Start();
  EXPECT_TRUE(Eventually([&] { return ReadFile(path + "/f") == "kept"; }, seconds(30)));
  EXPECT_FALSE(AnyBroken());
  EXPECT_THAT(MountsAt(target), SizeIs(1));
  EXPECT_THAT(MountsAt(path), SizeIs(1));
}

TEST_F(KernelMounts, NextAttachReplacesBrokenStageAndTarget) {
  const std::string path = Attached("db");
  ASSERT_EQ(TryWrite(path + "/f", "kept"), 0);
  const v1::Attachment attached = AttachmentOf("db");
  ASSERT_EQ(::umount2(path.c_str(), UMOUNT_NOFOLLOW), 0);
  Replace(attached.target_path());
  Replace(attached.staging_path());
  EXPECT_OK(client().Attach("db", "web-1", path));
  EXPECT_EQ(ReadFile(path + "/f"), "kept");
  EXPECT_FALSE(AnyBroken());
}

TEST_F(KernelMounts, DetachUnmountsBrokenTarget) {
  const std::string path = Attached("db");
  Replace(AttachmentOf("db").target_path());
  Inject("NodeUnpublishVolume", "fail NOT_FOUND it is not mounted");
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_THAT(MountsHere(), IsEmpty());
  EXPECT_THAT(client().Claims(), IsEmpty());
}

// A slow server is not broken: nothing is unmounted, and waits are bounded.
TEST_F(KernelMounts, HangingServerDelaysNoOthers) {
  constexpr seconds kPromptly{10};
  RunPlugin(kOurPlugin);
  Create("other", kOurPlugin);
  const std::string path = Attached("db"), other = Attached("other");
  const std::string target = AttachmentOf("db").target_path();
  ASSERT_EQ(TryWrite(other + "/f", "kept"), 0);
  ASSERT_EQ(process().End(SIGTERM), 0);
  ASSERT_EQ(::umount2(path.c_str(), UMOUNT_NOFOLLOW), 0);
  ASSERT_EQ(::umount2(other.c_str(), UMOUNT_NOFOLLOW), 0);
  ASSERT_EQ(::umount2(target.c_str(), UMOUNT_NOFOLLOW), 0);
  FuseServer server(target);
  server.Hang();
  const auto start = std::chrono::steady_clock::now();
  Start();
  EXPECT_TRUE(Eventually([&] { return ReadFile(other + "/f") == "kept"; }, seconds(30)));
  // The plugin looks, and hangs; or the volume has been restored on what hangs, and is busy.
  client().set_deadline(seconds(3));
  EXPECT_FALSE(client().Detach("web-1", "db").ok());
  client().set_deadline(seconds(60));
  EXPECT_OK(client().Detach("web-1", "other"));
  EXPECT_OK(client().Attach("other", "web-1", other));
  EXPECT_LT(std::chrono::steady_clock::now() - start, kPromptly);
  EXPECT_THAT(MountsAt(target), SizeIs(1)) << "what hangs is not taken for broken";
  Inject("NodeUnpublishVolume", "fail NOT_FOUND it is not mounted");
  server.Die();
  EXPECT_TRUE(Eventually([&] { return client().Detach("web-1", "db").ok(); }, seconds(30)));
  EXPECT_THAT(client().Attachments(), SizeIs(1));
  EXPECT_THAT(MountsAt(target), IsEmpty());
  EndFault("NodeUnpublishVolume");
}

TEST_F(KernelMounts, BusyDetachNamesMountBelow) {
  const std::string path = Attached("db");
  const std::string below = path + "/below";
  fs::create_directory(below);
  ASSERT_EQ(::mount("theirs", below.c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_THAT(client().Detach("web-1", "db"), FailsWith(Code::kFailedPrecondition, below));
  EXPECT_THAT(MountsAt(below), SizeIs(1)) << "it is not the manager's";
  EXPECT_THAT(client().Claims(), SizeIs(1));
  ASSERT_EQ(::umount2(below.c_str(), UMOUNT_NOFOLLOW), 0);
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_THAT(MountsHere(), IsEmpty());
}

TEST_F(KernelMounts, BusyDetachNamesPathAndChangesNothing) {
  const std::string path = Attached("db");
  UniqueFd file(::open((path + "/f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.ok());
  const absl::Status busy = client().Detach("web-1", "db");
  EXPECT_THAT(busy, FailsWith(Code::kFailedPrecondition, path));
  EXPECT_THAT(busy, FailsWith(Code::kFailedPrecondition, "stop the processes that use it"));
  file.reset();
  std::this_thread::sleep_for(seconds(3));  // longer than the first pause before a retry
  EXPECT_THAT(MountsAt(path), SizeIs(1)) << "the detach was refused";
  EXPECT_EQ(AttachmentOf("db").phase(), v1::Attachment::MOUNTED);
  EXPECT_THAT(AttachmentOf("db").problem(), IsEmpty());
  EXPECT_OK(client().Attach("db", "web-1", path)) << "it is attached";
  EXPECT_OK(client().Detach("web-1", "db"));
  EXPECT_THAT(MountsHere(), IsEmpty());
}

TEST_F(KernelMounts, BidirectionalPassesMountsBothWays) {
  ASSERT_OK(client().Attach(Request(v1::PROPAGATION_SHARED)));
  const std::string path = dir() / "db", target = AttachmentOf("db").target_path();
  EXPECT_THAT(MountAt(path)->propagation, Contains(StartsWith("shared:")));
  fs::create_directory(path + "/in");
  fs::create_directory(path + "/out");
  const PeerNamespace task;
  ASSERT_EQ(::mount("in", (target + "/in").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_THAT(task.MountInfo(), HasSubstr(" " + path + "/in "));
  EXPECT_EQ(task.Run("mount -t tmpfs out " + path + "/out"), 0);
  EXPECT_THAT(MountsAt(path + "/out"), SizeIs(1));
  EXPECT_OK(client().Detach("web-1", "db")) << "what the task left is seen at the target, too, and goes with it";
  EXPECT_THAT(MountsHere(), IsEmpty());
}

TEST_F(KernelMounts, RootIsSharedOnce) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    Restart(signal);
    ASSERT_THAT(MountsAt(root()), SizeIs(RootIsShared() ? 0 : 1));
    if (RootIsShared()) continue;
    EXPECT_THAT(MountAt(root())->propagation, Contains(StartsWith("shared:")));
  }
}

// As on a host with systemd: "/" is shared and contains the state directory.
class SharedHost : public ManagerTest {
 protected:
  void SetUp() override {
    process().options().wrapper = {"/usr/bin/unshare", "--mount", "--propagation", "shared"};
    Start();
  }
};

// A bind of the root on itself would show each mount below it a second time.
TEST_F(SharedHost, EachMountExistsOnce) {
  RunPlugin(kStrictPlugin);
  Create("db", kStrictPlugin);
  const std::string path = Attached("db");
  const std::string mounts = ReadFile(fmt::format("/proc/{}/mountinfo", process().pid()));
  EXPECT_THAT(mounts, Not(HasSubstr(" " + root() + " ")));
  EXPECT_THAT(mounts, HasSubstr(" " + path + " "));
  EXPECT_EQ(mounts.find(" " + path + " "), mounts.rfind(" " + path + " ")) << "it is not stacked";
  EXPECT_OK(client().Detach("web-1", "db"));
}

}  // namespace
}  // namespace mooring::testing
