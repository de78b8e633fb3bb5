// Sends messages and open files between mooring-plugin and mooring-mounter.
#pragma once

#include <google/protobuf/message_lite.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

struct SocketPair {
  UniqueFd ours, theirs;
};

// unix(7), close-on-exec. `type`: SOCK_STREAM or SOCK_SEQPACKET.
absl::StatusOr<SocketPair> MakeSocketPair(int type);

// An end of a stream socket for messages. Each follows its length in four bytes, little-endian. Not safe from several
// threads.
class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}

  // UNAVAILABLE: the other end is closed.
  absl::Status Send(const google::protobuf::MessageLite& message);

  // UNAVAILABLE: the other end is closed. INVALID_ARGUMENT: more than `most` bytes, or a malformed message.
  // DEADLINE_EXCEEDED: no whole message arrived. The channel is not usable after an error.
  absl::Status Receive(google::protobuf::MessageLite& message, std::size_t most,
                       std::optional<Clock::time_point> deadline = std::nullopt);

  const UniqueFd& fd() const { return fd_; }

 private:
  absl::Status Fill(std::size_t wanted, std::optional<Clock::time_point> deadline);

  UniqueFd fd_;
  std::string buffer_;  // the received part of the next message
};

// A number and possibly an open file, sent over a SOCK_SEQPACKET socket: SCM_RIGHTS in unix(7).
struct Parcel {
  std::int64_t number = 0;
  UniqueFd fd;
};

enum class Full { kWait, kReturn };

// UNAVAILABLE: the other end is closed. RESOURCE_EXHAUSTED: the socket is full, and `full` is kReturn.
absl::Status SendParcel(const UniqueFd& socket, std::int64_t number, const UniqueFd& fd = UniqueFd(),
                        Full full = Full::kWait);

// UNAVAILABLE: the other end is closed. INVALID_ARGUMENT: not a Parcel; its open files are closed.
absl::StatusOr<Parcel> ReceiveParcel(const UniqueFd& socket);

}  // namespace mooring
