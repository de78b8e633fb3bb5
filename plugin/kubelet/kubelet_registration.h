// Registers the plugin with kubelet (proto/pluginregistration.proto), instead of a registrar beside the plugin.
//
//   CheckSockets  no process serves the socket. The socket of a killed predecessor stays until it is replaced, because
//        │        kubelet still has it registered. A socket that appears later belongs to another process
//   Start         a thread that waits
//        │
//   Announce      binds DIR/.DRIVER-reg.sock, whose name kubelet's watcher ignores. rename(2) makes it
//        │ ▲      DIR/DRIVER-reg.sock: the watcher sees a new file, which listens already
//        ▼ │ refused, or the file is gone
//   (kubelet: GetInfo; NodeGetInfo on the endpoint; NotifyRegistrationStatus)
//        │
//   Withdraw      deletes the file: kubelet forgets the plugin
//
// Kubelet does not try a plugin again that it refused, until the socket is a new file. So the plugin announces itself
// again after 1 s, 2 s, 4 s, up to a minute.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"

namespace grpc {
class Server;
}

namespace mooring {

class KubeletRegistration {
 public:
  struct Settings {
    std::string directory;    // kubelet's plugins_registry, as this process sees it
    std::string driver_name;  // for GetInfo
    std::string endpoint;     // for GetInfo: the path of the CSI socket for kubelet
    std::chrono::milliseconds first_wait = std::chrono::seconds(1);
    std::chrono::milliseconds longest_wait = std::chrono::minutes(1);
    std::chrono::milliseconds check_every = std::chrono::seconds(10);  // that the socket still exists
  };

  // The paths of the socket: for kubelet, and where it is bound. The second one is longer.
  static std::string SocketPath(std::string_view directory, std::string_view driver_name);
  static std::string HiddenPath(std::string_view directory, std::string_view driver_name);

  explicit KubeletRegistration(Settings settings);
  ~KubeletRegistration();  // withdraws

  // Checks with connect(2) that no process serves the sockets, and that one can be made. FAILED_PRECONDITION: a process
  // serves one, a file is no socket, or none can be made. NOT_FOUND: the directory is missing.
  absl::Status CheckSockets();

  absl::Status Start();  // starts the thread, once. INTERNAL: no thread can be made
  void Announce();       // when the plugin is ready. The thread repeats it until kubelet accepts
  void Withdraw();       // for good. Leaves a socket of another process alone

 private:
  class Service;
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // The file of a socket. After a socket is deleted and closed, another file can get its inode number. The time of the
  // last change tells them apart.
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const File&) const = default;
  };
  static std::optional<File> FileAt(const std::string& path);  // empty: no file

  void Run();
  void CheckStillThere();                                            // with the lock
  std::optional<File> InspectSocket();                               // the file at path_
  absl::Status CheckMayReplace() const;                              // the file at path_
  absl::Status CheckMayBind() const;                                 // in the directory
  absl::Status OfferSocket();                                        // replaces the socket by a new one
  absl::Status MoveIntoPlace();                                      // hidden_path_ to path_
  void OnStatus(bool registered, const std::string& error);          // called by kubelet
  void RetryLater(std::string_view what, const std::string& cause);  // with the lock
  void EndServer();

  const Settings settings_;
  const std::string path_, hidden_path_;
  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;  // used by the thread only

  // Used by the thread only, until it has ended.
  std::optional<File> ours_;       // this plugin's socket
  std::optional<File> stale_;      // the socket of a killed predecessor
  std::optional<File> directory_;  // at the start
  bool disputed_ = false;          // another process has replaced the socket, and the log says so

  std::mutex mutex_;
  std::condition_variable changed_;
  bool announced_ = false;
  bool withdrawn_ = false;
  Clock::time_point offer_at_ = kNever;
  std::chrono::milliseconds wait_;  // until the next offer, if this one fails
  std::thread thread_;
};

}  // namespace mooring
