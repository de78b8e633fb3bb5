#include "http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace mooring::http {

// A client that hangs up while its call runs must not wake the loop: poll(2) reports that whatever it is asked for.
pollfd Connection::Waited() const {
  const short what = state_ == State::kAnswers ? POLLOUT : POLLIN;
  return {IsRunning() ? -1 : fd_.get(), what, 0};
}

bool Connection::Advance(const RequestLimits& limits) {
  switch (state_) {
    case State::kRuns:
      return true;
    case State::kAnswers:
      return Send();
    case State::kIsDone:
      return Receive();
    case State::kReads:
      if (!Receive()) return false;
      request_ = ReadRequest(text_, limits);
      return true;
  }
  return false;
}

void Connection::BeginCall() {
  state_ = State::kRuns;
  text_ = std::string();
}

bool Connection::IsAbandoned() const {
  pollfd asked = {fd_.get(), 0, 0};  // POLLHUP and POLLERR need not be asked for
  return ::poll(&asked, 1, 0) > 0;
}

pid_t Connection::Caller() const {
  ucred caller = {};
  socklen_t size = sizeof caller;
  return ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &caller, &size) == 0 ? std::max(caller.pid, 0) : 0;
}

bool Connection::Answer(const Response& response) {
  text_ = ToBytes(response);
  state_ = State::kAnswers;
  until_ = Clock::now() + patience_;
  return Send();
}

bool Connection::Receive() {
  std::array<char, 4096> buffer;
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (state_ == State::kReads) text_.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

bool Connection::Send() {
  const std::string_view left = std::string_view(text_).substr(sent_);
  const ssize_t went = ::send(fd_.get(), left.data(), left.size(), MSG_NOSIGNAL);
  if (went < 0) return errno == EAGAIN || errno == EINTR;
  sent_ += static_cast<std::size_t>(went);
  if (sent_ < text_.size()) return true;
  // A close now would reset the connection and drop the answer, if the client has sent unread bytes.
  state_ = State::kIsDone;
  text_ = std::string();
  return ::shutdown(fd_.get(), SHUT_WR) == 0;
}

}  // namespace mooring::http
