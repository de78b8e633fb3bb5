// A connection as httplib reads it, with an end: httplib itself collects header fields and lines for as long as they
// come.
#ifndef MOORING_MANAGER_DOCKER_BOUNDED_STREAM_H_
#define MOORING_MANAGER_DOCKER_BOUNDED_STREAM_H_

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
    std::size_t head, body;                    // bytes of one request, a chunked body with its lengths
    std::chrono::milliseconds patience{5000};  // for a client that neither says nor takes anything
    std::chrono::milliseconds most{30000};     // for a whole request, and for a whole answer
  };
  BoundedStream(int socket, Bounds bounds) : socket_(socket), bounds_(bounds) {}  // `socket` stays the caller's

  // False: none came in time.
  bool BeginRequest();
  // Reads and drops what the client still sends, at most 16 MiB. Closing earlier would discard the answer.
  void Drain();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;  // an error from the bounds on
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  int socket() const override { return socket_; }

 private:
  bool Fill();
  bool AwaitUntil(short what, Clock::time_point until) const;
  void Count(char read);  // where the head ends

  const int socket_;
  const Bounds bounds_;
  std::array<char, 4096> buffer_ = {};
  std::size_t at_ = 0, end_ = 0;  // what of it was not read yet
  std::size_t left_ = 0;          // of the head or the body
  Clock::time_point read_until_, write_until_;
  bool in_head_ = true;
  bool line_is_empty_ = true;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_DOCKER_BOUNDED_STREAM_H_
