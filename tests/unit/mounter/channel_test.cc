// Messages and open files over real sockets: whole, in pieces, and malformed.
#include "mounter/helper/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "mounter.pb.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;

std::string Frame(const std::string& bytes, std::uint32_t length) {
  std::string frame(4, '\0');
  for (unsigned i = 0; i < 4; ++i) frame[i] = static_cast<char>((length >> (8 * i)) & 0xFFU);
  return frame + bytes;
}
std::string Frame(const std::string& bytes) { return Frame(bytes, static_cast<std::uint32_t>(bytes.size())); }

std::string AFind(const std::string& path) {
  pb::Request request;
  request.set_find(path);
  return request.SerializeAsString();
}

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() : pair_(*MakeSocketPair(SOCK_STREAM)), channel_(std::move(pair_.ours)) {}

  void Write(const std::string& bytes) const {
    EXPECT_EQ(::send(pair_.theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  absl::Status Receive(std::size_t most = 65536, milliseconds patience = std::chrono::seconds(10)) {
    return channel_.Receive(request_, most, Channel::Clock::now() + patience);
  }

  SocketPair pair_;
  Channel channel_;
  pb::Request request_;
};

TEST_F(ChannelTest, MessagesGoBothWays) {
  Channel other(std::move(pair_.theirs));
  for (const std::string& path : {std::string("/a"), std::string(), std::string(60000, 'x'), std::string("/b")}) {
    pb::Request request, arrived;
    request.set_find(path);
    ASSERT_OK(channel_.Send(request));
    ASSERT_OK(other.Receive(arrived, 65536));
    EXPECT_EQ(arrived.find(), path);
    ASSERT_OK(other.Send(arrived));
    ASSERT_OK(Receive());
    EXPECT_EQ(request_.find(), path);
  }
}

TEST_F(ChannelTest, AMessageLargerThanTheSocketBufferArrives) {
  Channel other(std::move(pair_.theirs));
  pb::Request request;
  request.set_find(std::string(std::size_t{8} << 20U, 'x'));
  std::thread sender([&] { EXPECT_OK(other.Send(request)); });
  EXPECT_OK(Receive(std::size_t{9} << 20U));
  sender.join();
  EXPECT_EQ(request_.find().size(), request.find().size());
  std::thread again([&] { EXPECT_OK(other.Send(pb::Request())); });
  EXPECT_OK(Receive());
  again.join();
}

TEST_F(ChannelTest, AMessageArrivesByteByByte) {
  std::thread writer([this] {
    for (const char byte : Frame(AFind("/a/b"))) {
      Write(std::string(1, byte));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_OK(Receive());
  EXPECT_EQ(request_.find(), "/a/b");
  writer.join();
}

TEST_F(ChannelTest, AMessageOfLengthZeroIsEmpty) {
  Write(Frame(""));
  EXPECT_OK(Receive());
  EXPECT_EQ(request_.call_case(), pb::Request::CALL_NOT_SET);
}

TEST_F(ChannelTest, TheLongestAllowedMessageArrives) {
  const std::string bytes = AFind(std::string(1000, 'x'));
  Write(Frame(bytes));
  EXPECT_OK(Receive(bytes.size()));
  Write(Frame(bytes));
  EXPECT_THAT(Receive(bytes.size() - 1), FailsWith(StatusCode::kInvalidArgument, "bytes; the limit is"));
}

TEST_F(ChannelTest, GarbageIsRefused) {
  Write(Frame("\xff\xff\xff\xff"));
  EXPECT_THAT(Receive(), FailsWith(StatusCode::kInvalidArgument, "not a valid message"));
}

TEST_F(ChannelTest, MoreThanOneMessageAtATimeIsRefused) {
  Write(Frame(AFind("/a")) + Frame(AFind("/b")));
  EXPECT_THAT(Receive(), FailsWith(StatusCode::kInvalidArgument, "not a valid message"));
}

TEST_F(ChannelTest, AClosedEndIsUnavailableAfterAPartOfAMessage) {
  const std::string frame = Frame(AFind("/a/b"));
  for (std::size_t sent = 0; sent < frame.size(); ++sent) {
    SocketPair pair = *MakeSocketPair(SOCK_STREAM);
    ASSERT_EQ(::send(pair.theirs.get(), frame.data(), sent, 0), static_cast<ssize_t>(sent));
    pair.theirs.reset();
    Channel channel(std::move(pair.ours));
    EXPECT_THAT(channel.Receive(request_, 65536), FailsWith(StatusCode::kUnavailable, "closed")) << sent;
    EXPECT_THAT(channel.Send(request_), FailsWith(StatusCode::kUnavailable, "closed")) << sent;
  }
}

// If data was not read before the close, the other end sees a reset.
TEST_F(ChannelTest, AnEndThatIsClosedWithoutReadingIsUnavailable) {
  ASSERT_OK(channel_.Send(request_));
  pair_.theirs.reset();
  EXPECT_THAT(Receive(), FailsWith(StatusCode::kUnavailable, "closed"));
}

TEST_F(ChannelTest, TheDeadlineEndsTheWait) {
  const auto start = Channel::Clock::now();
  EXPECT_THAT(Receive(65536, milliseconds(50)), FailsWith(StatusCode::kDeadlineExceeded, ""));
  EXPECT_GE(Channel::Clock::now() - start, milliseconds(50));
  Write(Frame(AFind("/a")).substr(0, 5));
  EXPECT_THAT(Receive(65536, milliseconds(20)), FailsWith(StatusCode::kDeadlineExceeded, ""));
  EXPECT_THAT(Receive(65536, milliseconds(-20)), FailsWith(StatusCode::kDeadlineExceeded, ""));
}

// ---- parcels

class ParcelTest : public ::testing::Test {
 protected:
  ParcelTest() : pair_(*MakeSocketPair(SOCK_SEQPACKET)) {}

  SocketPair pair_;
};

TEST_F(ParcelTest, ANumberArrivesWithItsFileOrWithout) {
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 62U}) {
    ASSERT_OK(SendParcel(pair_.theirs, number));
    const absl::StatusOr<Parcel> plain = ReceiveParcel(pair_.ours);
    ASSERT_OK(plain);
    EXPECT_EQ(plain->number, number);
    EXPECT_FALSE(plain->fd.ok());
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ASSERT_OK(SendParcel(pair_.theirs, number, null));
    const absl::StatusOr<Parcel> parcel = ReceiveParcel(pair_.ours);
    ASSERT_OK(parcel);
    EXPECT_EQ(parcel->number, number);
    struct stat sent = {}, arrived = {};
    ASSERT_EQ(::fstat(null.get(), &sent), 0);
    ASSERT_EQ(::fstat(parcel->fd.get(), &arrived), 0);
    EXPECT_EQ(arrived.st_rdev, sent.st_rdev);
    EXPECT_EQ(::fcntl(parcel->fd.get(), F_GETFD), FD_CLOEXEC);
  }
}

TEST_F(ParcelTest, AnEmptyParcelMeansTheEnd) {
  ASSERT_EQ(::send(pair_.theirs.get(), "", 0, 0), 0);
  EXPECT_THAT(ReceiveParcel(pair_.ours), FailsWith(StatusCode::kUnavailable, "closed"));
}

TEST_F(ParcelTest, AClosedEndIsUnavailable) {
  pair_.theirs.reset();
  EXPECT_THAT(SendParcel(pair_.ours, 1), FailsWith(StatusCode::kUnavailable, "closed"));
  EXPECT_THAT(ReceiveParcel(pair_.ours), FailsWith(StatusCode::kUnavailable, "closed"));
}

}  // namespace
}  // namespace mooring::testing
