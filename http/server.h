// Serves HTTP/1 on a listening socket, one request on each connection.
//
// A single thread polls all connections, and handlers run on threads of their own. So clients that are slow, silent or
// many take neither threads nor much memory. A connection has Settings::patience for its request. At most
// Settings::most are open. A further one replaces the oldest that has no whole request.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "http/request.h"

namespace mooring::http {

class Server {
 public:
  using Clock = std::chrono::steady_clock;
  using Handler = std::function<Response(const Request&)>;          // an exception is logged, and is a 500
  using Refuse = std::function<Response(int, const std::string&)>;  // the answer for a status and its reason

  struct Settings {
    const char* name;          // for the log, such as "metrics"
    std::size_t threads;       // the most handlers at a time
    std::size_t most;          // open connections
    Clock::duration patience;  // for a whole request, and for a whole answer
    RequestLimits limits;
  };

  // `listener` listens and does not block.
  static absl::StatusOr<std::unique_ptr<Server>> Start(UniqueFd listener, Handler handler, Refuse refuse,
                                                       Settings settings);
  ~Server();  // Stop, then waits for the running handlers

  // Closes the listener and all connections without a whole request. Running handlers end, and their answers are sent
  // as far as the socket takes them at once. False: a handler still runs at `until`.
  bool Stop(Clock::time_point until);

 private:
  class Loop;
  explicit Server(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace mooring::http
