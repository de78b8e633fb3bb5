// The plugin's own registration with kubelet (proto/pluginregistration.proto), which else a registrar beside it does.
//
//   CheckSockets  nobody serves there. The socket of a predecessor that was killed stays until it is replaced: kubelet
//        │        has that one registered still, and calls our endpoint
//   Announce      a socket bound as DIR/.DRIVER-reg.sock, which kubelet's watcher passes over for its dot, becomes
//        │ ▲      DIR/DRIVER-reg.sock by rename(2): to the watcher that is a new file, and it is one that listens
//        ▼ │ refused, or the file is gone
//   (kubelet: GetInfo; NodeGetInfo on the endpoint; NotifyRegistrationStatus)
//        │
//   Withdraw      the file is removed: kubelet forgets the plugin
//
// A plugin that kubelet refused it does not look at again before its socket is a new file: so it is announced again
// after a second, then two, four, up to a minute.
#ifndef MOORING_PLUGIN_KUBELET_REGISTRATION_H_
#define MOORING_PLUGIN_KUBELET_REGISTRATION_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
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

  // Asks who serves there, with connect(2). FAILED_PRECONDITION: somebody does, or it is no socket; NOT_FOUND: the
  // directory is missing.
  absl::Status CheckSockets() const;

  void Announce();  // once, when the plugin is ready; in the background, until it is done or withdrawn
  void Withdraw();  // for good; a socket that others have put there meanwhile is left alone

 private:
  class Service;
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  void Run();
  absl::Status Offer();                                          // a new socket in the place of the one before
  void Hear(bool registered, const std::string& error);          // from kubelet
  void PutOff(std::string_view what, const std::string& cause);  // with the lock
  bool IsThere() const;                                          // our socket
  bool IsGone() const;                                           // no file at all
  void EndServer();

  const Settings settings_;
  const std::string path_, hidden_path_;
  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;  // of the thread
  unsigned long device_ = 0, inode_ = 0;  // of our socket; 0: there is none. Of the thread, until it has ended

  std::mutex mutex_;
  std::condition_variable changed_;
  bool withdrawn_ = false;
  Clock::time_point offer_at_ = kNever;
  std::chrono::milliseconds wait_;  // until the next offer, if this one fails
  std::thread thread_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_KUBELET_REGISTRATION_H_
