// The plugin's own registration with kubelet (proto/pluginregistration.proto), which else a registrar beside it does.
//
//   CheckSockets  nobody serves there. The socket of a predecessor that was killed stays until it is replaced: kubelet
//        │        has that one registered still, and calls our endpoint. Any other that comes later is somebody else's
//   Start         a thread that waits
//        │
//   Announce      a socket bound as DIR/.DRIVER-reg.sock, which kubelet's watcher passes over for its dot, becomes
//        │ ▲      DIR/DRIVER-reg.sock by rename(2): to the watcher that is a new file, and it is one that listens
//        ▼ │ refused, or the file is gone
//   (kubelet: GetInfo; NodeGetInfo on the endpoint; NotifyRegistrationStatus)
//        │
//   Withdraw      the file is removed: kubelet forgets the plugin
//
// A plugin that kubelet refused it does not look at again before its socket is a new file: so it is announced again
// after a second, then two, four, up to a minute.
#ifndef MOORING_PLUGIN_PROCESS_KUBELET_REGISTRATION_H_
#define MOORING_PLUGIN_PROCESS_KUBELET_REGISTRATION_H_

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
    std::string driver_name;  // what GetInfo answers: name,
    std::string endpoint;     // and the socket of the CSI services, as kubelet sees it
    std::chrono::milliseconds first_wait = std::chrono::seconds(1);
    std::chrono::milliseconds longest_wait = std::chrono::minutes(1);
    std::chrono::milliseconds look_after = std::chrono::seconds(10);  // whether the socket is there still
  };

  // The sockets' paths: what kubelet sees, and where it is bound. The second is the longer one.
  static std::string SocketPath(std::string_view directory, std::string_view driver_name);
  static std::string HiddenPath(std::string_view directory, std::string_view driver_name);

  explicit KubeletRegistration(Settings settings);
  ~KubeletRegistration();  // withdraws

  // Asks who serves there, with connect(2), and makes a socket to see whether that is possible. FAILED_PRECONDITION:
  // somebody serves, it is no socket, or none can be made; NOT_FOUND: the directory is missing.
  absl::Status CheckSockets();

  absl::Status Start();  // the thread that does all the rest; once. INTERNAL: there is none to be had
  void Announce();       // when the plugin is ready; in the background, until it is done or withdrawn
  void Withdraw();       // for good; a socket that others have put there meanwhile is left alone

 private:
  class Service;
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // A socket's file. Once it is gone, and not bound any more, another one can get its number: then the time of the
  // last change tells them apart.
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const File&) const = default;
  };
  static std::optional<File> Look(const std::string& path);  // none: nothing is there

  void Run();
  void LookAfterSocket();                                        // with the lock
  std::optional<File> LookAtPlace();                             // what is at path_
  absl::Status CheckPlace() const;                               // is that ours to take?
  absl::Status CheckMayBind() const;                             // in that directory
  absl::Status Offer();                                          // a new socket in the place of the one before
  absl::Status Place();                                          // what was bound, to where kubelet sees it
  void Hear(bool registered, const std::string& error);          // from kubelet
  void PutOff(std::string_view what, const std::string& cause);  // with the lock
  void EndServer();

  const Settings settings_;
  const std::string path_, hidden_path_;
  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;  // of the thread

  // Of the thread, until it has ended.
  std::optional<File> ours_;       // our socket
  std::optional<File> stale_;      // that of a predecessor that was killed
  std::optional<File> directory_;  // as it was when it was first looked at
  bool disputed_ = false;          // somebody else's socket is there, and that was told

  std::mutex mutex_;
  std::condition_variable changed_;
  bool announced_ = false;
  bool withdrawn_ = false;
  Clock::time_point offer_at_ = kNever;
  std::chrono::milliseconds wait_;  // until the next offer, if this one fails
  std::thread thread_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_PROCESS_KUBELET_REGISTRATION_H_
