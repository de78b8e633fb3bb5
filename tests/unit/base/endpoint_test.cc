#include "base/endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>

#include "base/file/unique_fd.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr char kFlag[] = "--some-socket";

class EndpointTest : public ::testing::Test {
 protected:
  static UniqueFd Bound(const std::string& path, int type = SOCK_STREAM) {
    UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  bool Exists() const {
    struct stat status = {};
    return ::lstat(socket_.c_str(), &status) == 0;
  }

  TempDir dir_;
  const std::string socket_ = dir_ / "csi.sock";
};

TEST_F(EndpointTest, MissingSocketIsOk) {
  EXPECT_OK(ClearSocketPath(socket_, kFlag));
  EXPECT_FALSE(Exists());
}

TEST_F(EndpointTest, StaleSocketIsRemoved) {
  Bound(socket_).reset();
  ASSERT_TRUE(Exists());
  EXPECT_OK(ClearSocketPath(socket_, kFlag));
  EXPECT_FALSE(Exists());
}

TEST_F(EndpointTest, IsStaleSocketRemovesNothing) {
  EXPECT_EQ(IsStaleSocket(socket_, kFlag).value(), false) << "nothing is there";
  {
    const UniqueFd server = Bound(socket_);
    ASSERT_EQ(::listen(server.get(), 1), 0);
    EXPECT_THAT(IsStaleSocket(socket_, kFlag), FailsWith(StatusCode::kFailedPrecondition, "served by another"));
  }
  EXPECT_EQ(IsStaleSocket(socket_, kFlag).value(), true);
  EXPECT_TRUE(Exists());
}

TEST_F(EndpointTest, LiveSocketStays) {
  const UniqueFd server = Bound(socket_);
  ASSERT_EQ(::listen(server.get(), 1), 0);
  for (int i = 0; i < 5; ++i) {  // its queue fills up, too
    EXPECT_THAT(ClearSocketPath(socket_, kFlag),
                FailsWith(StatusCode::kFailedPrecondition, "choose another --some-socket"));
  }
  EXPECT_TRUE(Exists());
}

TEST_F(EndpointTest, LiveSocketOfAnotherTypeStays) {
  const UniqueFd datagram = Bound(socket_, SOCK_DGRAM);
  EXPECT_THAT(ClearSocketPath(socket_, kFlag),
              FailsWith(StatusCode::kFailedPrecondition, "choose another --some-socket"));
  EXPECT_TRUE(Exists());
}

TEST_F(EndpointTest, OtherFilesStay) {
  std::ofstream(socket_) << "precious";
  EXPECT_THAT(ClearSocketPath(socket_, kFlag), FailsWith(StatusCode::kFailedPrecondition, "not a socket"));
  EXPECT_TRUE(Exists());
  EXPECT_THAT(ClearSocketPath(dir_.path(), kFlag), FailsWith(StatusCode::kFailedPrecondition, "not a socket"));
}

TEST_F(EndpointTest, SymbolicLinkStays) {
  Bound(dir_ / "real.sock").reset();
  ASSERT_EQ(::symlink((dir_ / "real.sock").c_str(), socket_.c_str()), 0);
  EXPECT_THAT(ClearSocketPath(socket_, kFlag), FailsWith(StatusCode::kFailedPrecondition, "not a socket"));
  EXPECT_TRUE(Exists());
}

TEST_F(EndpointTest, MissingDirectoryIsNamed) {
  EXPECT_THAT(ClearSocketPath(dir_ / "missing/csi.sock", kFlag), FailsWith(StatusCode::kNotFound, "/missing'"));
  std::ofstream(dir_ / "file") << "x";
  EXPECT_THAT(ClearSocketPath(dir_ / "file/csi.sock", kFlag),
              FailsWith(StatusCode::kFailedPrecondition, "file/csi.sock"));
}

TEST_F(EndpointTest, DirectoryLockIsExclusive) {
  absl::StatusOr<UniqueFd> first = LockSocketDirectory(socket_, kFlag);
  ASSERT_OK(first);
  EXPECT_THAT(LockSocketDirectory(dir_ / "another.sock", kFlag, std::chrono::milliseconds(20)),
              FailsWith(StatusCode::kFailedPrecondition, "choose another --some-socket"));
  auto second = std::async(std::launch::async, [this] { return LockSocketDirectory(socket_, kFlag).status(); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  first->reset();
  EXPECT_OK(second.get());
  EXPECT_THAT(LockSocketDirectory(dir_ / "missing/csi.sock", kFlag), FailsWith(StatusCode::kNotFound, "/missing'"));
}

}  // namespace
}  // namespace mooring::testing
