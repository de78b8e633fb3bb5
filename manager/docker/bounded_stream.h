// A connection for httplib with limits on size and time. httplib itself reads header fields and lines without a limit.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace mooring::manager {

class BoundedStream final : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  struct Bounds {
    std::size_t head, body;                    // the most bytes of a request; a chunked body includes its lengths
    std::chrono::milliseconds patience{5000};  // for a client that sends and reads nothing
    std::chrono::milliseconds most{30000};     // for a whole request, and for a whole answer
  };
  BoundedStream(int socket, Bounds bounds) : socket_(socket), bounds_(bounds) {}  // the caller closes `socket`

  // Waits for the next request. False: none came in time.
  bool BeginRequest();
  // Reads and drops the rest of the input, at most 16 MiB. Closing the socket earlier would discard the answer.
  void Drain();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;  // -1 behind the limits
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  int socket() const override { return socket_; }

 private:
  bool Fill();
  bool AwaitUntil(short what, Clock::time_point until) const;
  void Count(char read);  // finds the end of the head

  const int socket_;
  const Bounds bounds_;
  std::array<char, 4096> buffer_ = {};
  std::size_t at_ = 0, end_ = 0;  // the unread part of buffer_
  std::size_t left_ = 0;          // bytes that the head or the body may still have
  Clock::time_point read_until_, write_until_;
  bool in_head_ = true;
  bool line_is_empty_ = true;
};

}  // namespace mooring::manager
