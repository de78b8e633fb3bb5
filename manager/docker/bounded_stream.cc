#include "manager/docker/bounded_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace mooring::manager {
namespace {

bool Await(int socket, short what, std::chrono::milliseconds patience) {
  pollfd waited = {socket, what, 0};
  int ready = 0;
  do {
    ready = ::poll(&waited, 1, static_cast<int>(patience.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

bool BoundedStream::AwaitUntil(short what, Clock::time_point until) const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  return left.count() > 0 && Await(socket_, what, std::min(bounds_.patience, left));
}

bool BoundedStream::BeginRequest() {
  read_until_ = Clock::now() + bounds_.most;
  write_until_ = {};  // set with the answer, because the call takes its time
  left_ = bounds_.head;
  in_head_ = true;
  line_is_empty_ = false;
  return is_readable();
}

void BoundedStream::Drain() {
  constexpr std::size_t kMost = std::size_t{16} * 1024 * 1024;
  constexpr std::chrono::milliseconds kPatience{500};
  const Clock::time_point until = Clock::now() + bounds_.patience;
  ::shutdown(socket_, SHUT_WR);
  for (std::size_t drained = 0; drained < kMost && Clock::now() < until && Await(socket_, POLLIN, kPatience);) {
    const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    drained += static_cast<std::size_t>(got);
  }
}

bool BoundedStream::is_readable() const { return at_ < end_ || AwaitUntil(POLLIN, read_until_); }
bool BoundedStream::is_writable() const {
  return AwaitUntil(POLLOUT, write_until_ == Clock::time_point() ? Clock::now() + bounds_.most : write_until_);
}

bool BoundedStream::Fill() {
  if (!is_readable()) return false;
  const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
  at_ = 0;
  end_ = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  return got > 0;
}

void BoundedStream::Count(char read) {
  --left_;
  if (!in_head_) return;
  if (read == '\n' && line_is_empty_) {
    in_head_ = false;
    left_ = bounds_.body;
  }
  if (read != '\r') line_is_empty_ = read == '\n';
}

ssize_t BoundedStream::read(char* to, std::size_t size) {
  if (left_ == 0) return -1;
  if (at_ == end_ && !Fill()) return end_ == 0 ? 0 : -1;
  ssize_t count = 0;
  while (static_cast<std::size_t>(count) < size && at_ < end_ && left_ > 0) {
    to[count++] = buffer_[at_];
    Count(buffer_[at_++]);
  }
  return count;
}

ssize_t BoundedStream::write(const char* from, std::size_t size) {
  if (write_until_ == Clock::time_point()) write_until_ = Clock::now() + bounds_.most;
  return is_writable() ? ::send(socket_, from, size, MSG_NOSIGNAL) : -1;
}

// A unix socket has no IP address or port.
void BoundedStream::get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const {}
void BoundedStream::get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const {}

}  // namespace mooring::manager
