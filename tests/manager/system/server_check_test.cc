// ServerCheck with FUSE servers that answer, hang, and die.
#include "manager/volumes/server_check.h"

#include <sys/mount.h>

#include <optional>

#include "tests/manager/system/manager_test.h"
#include "tests/support/fuse_server.h"

namespace mooring::testing {
namespace {

using manager::ServerCheck;

constexpr milliseconds kPatience{200};
constexpr milliseconds kForever = hours(1);

std::ptrdiff_t Threads() {
  const fs::directory_iterator tasks("/proc/self/task");
  return std::distance(fs::begin(tasks), fs::end(tasks));
}

class ServerCheckTest : public ::testing::Test {
 protected:
  ~ServerCheckTest() override {
    server_->Die();
    EXPECT_EQ(::umount2(path_.c_str(), UMOUNT_NOFOLLOW), 0);
  }

  // The result of a check, and its duration.
  struct Said {
    std::string failure;
    milliseconds time;
  };
  Said Ask(ServerCheck& check, const std::string& fs_type = "fuse") {
    PathInfo info;
    info.mount.emplace();
    info.mount->fs_type = fs_type;
    const auto start = std::chrono::steady_clock::now();
    check.Check(path_, info);
    return {info.failure, std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start)};
  }

  TempDir dir_;
  const std::string path_ = dir_.path();
  std::optional<FuseServer> server_{path_};
};

TEST_F(ServerCheckTest, DeadServerIsBroken) {
  ServerCheck check(kForever);
  EXPECT_EQ(Ask(check).failure, "");
  server_->Fail(EACCES);
  EXPECT_EQ(Ask(check).failure, "") << "it answers";
  server_->Fail(0);
  server_->Die();
  EXPECT_THAT(Ask(check).failure, HasSubstr("not connected"));
}

TEST_F(ServerCheckTest, HangingServerIsNotBroken) {
  ServerCheck check(kPatience);
  server_->Hang();
  const auto before = Threads();
  const Said first = Ask(check);
  EXPECT_EQ(first.failure, "");
  EXPECT_GE(first.time, kPatience);
  EXPECT_LT(first.time, 10 * kPatience);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Ask(check).failure, "");
    EXPECT_EQ(Threads(), before + 1) << "one question is open, however often it is asked";
  }
  server_->Resume();
  while (Threads() > before) std::this_thread::yield();
  EXPECT_EQ(Ask(check).failure, "");
  server_->Die();
  EXPECT_THAT(Ask(check).failure, HasSubstr("not connected")) << "it is asked anew";
}

TEST_F(ServerCheckTest, HangingQueryOutlivesCaller) {
  const auto before = Threads();
  server_->Hang();
  { Ask(*std::make_unique<ServerCheck>(milliseconds(1))); }
  EXPECT_EQ(Threads(), before + 1);
  server_->Resume();
  while (Threads() > before) std::this_thread::yield();
}

TEST_F(ServerCheckTest, LocalFilesystemsAreNotAsked) {
  ServerCheck check(kForever);
  server_->Hang();
  const auto before = Threads();
  for (const char* fs_type : {"ext4", "xfs", "btrfs", "tmpfs"}) EXPECT_EQ(Ask(check, fs_type).failure, "") << fs_type;
  EXPECT_EQ(Threads(), before);
}

}  // namespace
}  // namespace mooring::testing
