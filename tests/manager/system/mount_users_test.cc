// Which mounts of containers outlived their engine, on the real kernel.
#include "manager/docker/mount_users.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/rpc/support/peer_namespace.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {
namespace {

class MountUsersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(volume_);
    std::filesystem::create_directories(inside_);
    ASSERT_EQ(::mount("volume", volume_.c_str(), "tmpfs", 0, ""), 0);
  }

  // A container with a root of its own has the volume, or a directory of it, at `target`.
  int RunContainer(const PeerNamespace& container, const std::string& target = "/data",
                   const std::string& directory = "") {
    const std::string root = dir_ / "container";
    return container.Run("mount --make-rprivate / && mount -t tmpfs root " + root + " && mkdir -p " + root + "/old " +
                         root + target + " " + volume_ + directory + " && mount --bind " + volume_ + directory + " " +
                         root + target + " && cd " + root + " && pivot_root . old");
  }

  void TearDown() override { ASSERT_EQ(::umount(volume_.c_str()), 0); }

  bool HasUser(const PeerNamespace& engine) const {
    return manager::HasUserOlderThan(*manager::IdentityOf(engine.pid()), attachment_);
  }

  // A process that begins afterwards is younger than all before.
  static void NextTick() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

  const TempDir dir_;
  const std::string volume_ = dir_ / "docker/db/1";
  const std::string inside_ = dir_ / "container/data";
  manager::AttachmentRecord attachment_ = AttachedAt(volume_, dir_ / "staged");

 private:
  static manager::AttachmentRecord AttachedAt(const std::string& path, const std::string& staged) {
    manager::AttachmentRecord record;
    record.attach_path = path;
    record.staging_path = staged;
    return record;
  }
};

TEST_F(MountUsersTest, AContainerThatIsOlderThanTheEngineIsFound) {
  const PeerNamespace container;
  NextTick();
  const PeerNamespace engine;
  EXPECT_FALSE(HasUser(engine)) << "both see the mount of the host only";
  ASSERT_EQ(RunContainer(container), 0);
  EXPECT_TRUE(HasUser(engine));
}

// volume-subpath of Docker.
TEST_F(MountUsersTest, AContainerWithADirectoryOfTheVolumeIsFound) {
  const PeerNamespace container;
  ASSERT_EQ(RunContainer(container, "/data", "/below"), 0);
  NextTick();
  EXPECT_TRUE(HasUser(PeerNamespace()));
}

// The volume is also attached on the host, at the path that a container has for it.
TEST_F(MountUsersTest, AContainerWithAPathOfTheHostIsFound) {
  const std::string attached = dir_ / "srv";
  std::filesystem::create_directories(attached);
  ASSERT_EQ(::mount(volume_.c_str(), attached.c_str(), nullptr, MS_BIND, nullptr), 0);
  const PeerNamespace service;
  ASSERT_EQ(service.Run("mount --make-rprivate /"), 0);
  NextTick();
  EXPECT_FALSE(HasUser(PeerNamespace())) << "a service has the mounts of the host";
  const PeerNamespace container;
  ASSERT_EQ(RunContainer(container, attached), 0);
  NextTick();
  EXPECT_TRUE(HasUser(PeerNamespace()));
  ASSERT_EQ(::umount(attached.c_str()), 0);
}

TEST_F(MountUsersTest, AYoungerContainerIsNotFound) {
  const PeerNamespace engine;
  NextTick();
  const PeerNamespace container;
  ASSERT_EQ(RunContainer(container), 0);
  EXPECT_FALSE(HasUser(engine));
}

TEST_F(MountUsersTest, AContainerOfAnotherVolumeIsNotFound) {
  const PeerNamespace container;
  ASSERT_EQ(container.Run("mount --make-rprivate / && mount -t tmpfs other " + inside_ + " && umount " + volume_), 0);
  NextTick();
  const PeerNamespace engine;
  EXPECT_FALSE(HasUser(engine));
}

// A service with a private namespace shows the staged volume and its targets where the host has them.
TEST_F(MountUsersTest, AServiceWithANamespaceOfItsOwnIsNoUser) {
  const std::string staged = dir_ / "staged";
  std::filesystem::create_directories(staged);
  ASSERT_EQ(::mount(volume_.c_str(), staged.c_str(), nullptr, MS_BIND, nullptr), 0);
  const PeerNamespace service;
  const std::string host = dir_ / "host";
  std::filesystem::create_directories(host);
  ASSERT_EQ(service.Run("mount --make-rprivate / && mount --rbind / " + host), 0);
  NextTick();
  const PeerNamespace engine;
  EXPECT_FALSE(HasUser(engine));
  ASSERT_EQ(::umount(staged.c_str()), 0);
}

TEST_F(MountUsersTest, APathThatIsNotMountedCounts) {
  const PeerNamespace engine;
  attachment_.attach_path = inside_;
  EXPECT_TRUE(HasUser(engine));
}

}  // namespace
}  // namespace mooring::testing
