// The socket of the API: bound by the manager, or passed by systemd.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring::manager {

// A socket that listens. The destructor removes its file if the manager bound it.
class ListeningSocket {
 public:
  // Binds `path` for root (mode 0600), or for root and `group` (0660). Nobody else can connect at any moment.
  // FAILED_PRECONDITION: another process serves it, or the group does not exist.
  static absl::StatusOr<ListeningSocket> Bind(const std::string& path, const std::string& group);

  // The socket that systemd passes, sd_listen_fds(3); nullopt if it passes none. Its unit sets path and mode. To be
  // called before the first thread starts, because it changes the environment.
  static absl::StatusOr<std::optional<ListeningSocket>> Inherit();

  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }

 private:
  ListeningSocket(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;  // empty: bound by systemd
};

}  // namespace mooring::manager
