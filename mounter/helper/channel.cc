#include "mounter/helper/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/file/await_input.h"
#include "base/status.h"

namespace mooring {
namespace {

constexpr std::size_t kHeader = 4;
constexpr std::size_t kChunk = 16384;                        // larger than nearly all messages
constexpr std::size_t kMostChunk = std::size_t{256} << 10U;  // the size of a socket buffer
constexpr std::size_t kKeptBuffer = 65536;                   // a larger buffer is freed after its message

absl::Status Closed() { return Unavailable("the other end of the channel is closed"); }

bool MeansClosed(int error) { return error == EPIPE || error == ECONNRESET || error == ENOTCONN; }

std::array<char, kHeader> HeaderOf(std::size_t size) {
  std::array<char, kHeader> header = {};
  for (std::size_t i = 0; i < kHeader; ++i) header[i] = static_cast<char>((size >> (8 * i)) & 0xFFU);
  return header;
}

std::size_t SizeIn(const std::string& buffer) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < kHeader; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(buffer[i])) << (8 * i);
  return size;
}

// Counts the received open files. The last one stays in `fd`, the others are closed.
std::size_t CollectFiles(msghdr& message, UniqueFd& fd) {
  std::size_t files = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int), ++files) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(part) + at, sizeof(raw));
      fd.reset(raw);
    }
  }
  return files;
}

}  // namespace

absl::StatusOr<SocketPair> MakeSocketPair(int type) {
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) return ErrnoStatus(errno, "make a socket pair");
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

absl::Status Channel::Send(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  std::string bytes;
  bytes.reserve(kHeader + size);
  const std::array<char, kHeader> header = HeaderOf(size);
  bytes.append(header.data(), header.size());
  if (!message.AppendToString(&bytes)) return Internal("a message to the mount helper cannot be serialized");
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t more = ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return MeansClosed(errno) ? Closed() : ErrnoStatus(errno, "send to the mount helper");
    sent += static_cast<std::size_t>(more);
  }
  return absl::OkStatus();
}

// Reads until the buffer holds `wanted` bytes.
absl::Status Channel::Fill(std::size_t wanted, std::optional<Clock::time_point> deadline) {
  while (buffer_.size() < wanted) {
    if (deadline && !AwaitInput(fd_, *deadline)) return absl::DeadlineExceededError("no answer in time");
    const std::size_t had = buffer_.size();
    buffer_.resize(had + std::clamp(wanted - had, kChunk, kMostChunk));
    const ssize_t got = ::recv(fd_.get(), buffer_.data() + had, buffer_.size() - had, 0);
    buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return Closed();
    if (got < 0 && errno != EINTR) return MeansClosed(errno) ? Closed() : ErrnoStatus(errno, "receive");
  }
  return absl::OkStatus();
}

absl::Status Channel::Receive(google::protobuf::MessageLite& message, std::size_t most,
                              std::optional<Clock::time_point> deadline) {
  MOORING_RETURN_IF_ERROR(Fill(kHeader, deadline));
  const std::size_t size = SizeIn(buffer_);
  if (size > most) return InvalidArgument("a message of {} bytes; the limit is {}", size, most);
  MOORING_RETURN_IF_ERROR(Fill(kHeader + size, deadline));
  // Each side sends one message and waits, so further bytes are an error.
  const bool whole = buffer_.size() == kHeader + size;
  const bool parsed = whole && message.ParseFromArray(buffer_.data() + kHeader, static_cast<int>(size));
  buffer_.clear();
  if (buffer_.capacity() > kKeptBuffer) buffer_.shrink_to_fit();
  return parsed ? absl::OkStatus() : InvalidArgument("{} bytes that are not a valid message", size);
}

absl::Status SendParcel(const UniqueFd& socket, std::int64_t number, const UniqueFd& fd, Full full) {
  iovec part = {&number, sizeof(number)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd.ok()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int raw = fd.get();
    std::memcpy(CMSG_DATA(rights), &raw, sizeof(raw));
  }
  const int flags = MSG_NOSIGNAL | (full == Full::kReturn ? MSG_DONTWAIT : 0);
  for (;;) {
    if (::sendmsg(socket.get(), &message, flags) >= 0) return absl::OkStatus();
    // ETOOMANYREFS, unix(7): more open files are in transit than RLIMIT_NOFILE allows.
    const bool is_full = errno == EAGAIN || errno == ETOOMANYREFS;
    if (is_full && full == Full::kReturn)
      return absl::ResourceExhaustedError("the mount helper accepts no more calls now");
    if (errno != EINTR) return MeansClosed(errno) ? Closed() : ErrnoStatus(errno, "send to the mount helper");
  }
}

absl::StatusOr<Parcel> ReceiveParcel(const UniqueFd& socket) {
  Parcel parcel;
  iovec part = {&parcel.number, sizeof(parcel.number)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};  // the kernel closes files beyond this room
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return MeansClosed(errno) ? Closed() : ErrnoStatus(errno, "receive");
  const std::size_t files = CollectFiles(message, parcel.fd);
  if (got == 0) return Closed();
  const bool whole = got == sizeof(parcel.number) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!whole || files > 1) return InvalidArgument("a parcel of {} bytes and {} files", got, files);
  return parcel;
}

}  // namespace mooring
