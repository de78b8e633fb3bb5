#include "tests/manager/etcd/answer_proxy.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

namespace mooring::testing {
namespace {

constexpr int kPollMilliseconds = 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// False: one of the sockets is closed.
bool Copy(int from, int to) {
  std::array<char, 16384> buffer{};
  const ssize_t size = ::recv(from, buffer.data(), buffer.size(), 0);
  return size > 0 && ::send(to, buffer.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) == size;
}

}  // namespace

AnswerProxy::AnswerProxy(const std::string& member)
    : member_port_(std::stoi(member.substr(member.rfind(':') + 1))), listener_(NewSocket()) {
  const sockaddr_in any = Loopback(0);
  EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  EXPECT_EQ(::listen(listener_, SOMAXCONN), 0);
  acceptor_ = std::jthread([this](const std::stop_token& stop) { Accept(stop); });
}

AnswerProxy::~AnswerProxy() {
  acceptor_.request_stop();
  acceptor_.join();
  connections_.clear();
  ::close(listener_);
}

std::string AnswerProxy::endpoint() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return fmt::format("etcd://127.0.0.1:{}", ntohs(address.sin_port));
}

void AnswerProxy::LoseHeldAnswers() {
  losing_ = true;
  while (open_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  holding_ = losing_ = false;
}

void AnswerProxy::Accept(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd waiting{listener_, POLLIN, 0};
    if (losing_ || ::poll(&waiting, 1, kPollMilliseconds) <= 0) continue;
    Connection& connection = connections_.emplace_back();
    connection.client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    connection.member = NewSocket();
    const sockaddr_in member = Loopback(member_port_);
    EXPECT_EQ(::connect(connection.member, reinterpret_cast<const sockaddr*>(&member), sizeof member), 0);
    ++open_;
    connection.thread = std::jthread([this, &connection](const std::stop_token& end) { Forward(connection, end); });
  }
}

void AnswerProxy::Forward(const Connection& connection, const std::stop_token& stop) {
  bool open = true;
  while (open && !losing_ && !stop.stop_requested()) {
    const short answers = holding_ ? 0 : POLLIN;
    std::array<pollfd, 2> ends{{{connection.client, POLLIN, 0}, {connection.member, answers, 0}}};
    if (::poll(ends.data(), ends.size(), kPollMilliseconds) <= 0) continue;
    if (ends[0].revents != 0) open = Copy(connection.client, connection.member);
    if (open && ends[1].revents != 0 && !holding_) open = Copy(connection.member, connection.client);
  }
  ::close(connection.client);
  ::close(connection.member);
  --open_;
}

}  // namespace mooring::testing
