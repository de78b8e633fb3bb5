// The socket that the API is served on: of our own making, or passed by systemd.
#ifndef MOORING_MANAGER_PROCESS_SOCKET_H_
#define MOORING_MANAGER_PROCESS_SOCKET_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring::manager {

// It listens; its file goes with it, where it is ours.
class ListeningSocket {
 public:
  // Bound to `path`, for root alone (0600), or for root and `group` (0660): nobody else could connect at any moment.
  // FAILED_PRECONDITION: somebody serves it already, or there is no such group.
  static absl::StatusOr<ListeningSocket> Bind(const std::string& path, const std::string& group);

  // The one that systemd passes, sd_listen_fds(3), if it passes one: what it is and who may use it is the unit's to
  // say. Before the first thread starts: it changes the environment.
  static absl::StatusOr<std::optional<ListeningSocket>> Inherit();

  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }

 private:
  ListeningSocket(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;  // empty: not ours
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_PROCESS_SOCKET_H_
