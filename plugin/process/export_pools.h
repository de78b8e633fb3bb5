// Pools that the plugin mounts by itself (BackendType::own_mount), each with a thread, and one that reconciles:
//
//   find the server's address ─▶ mount ─▶ open the records ─▶ reconcile ─▶ ask the server every two seconds
//              ▲                                                                       │ a mount is gone
//              └───────────────── after five seconds, on any error ◀───────────────────┘
//
// So no pool waits for another one, and the start waits for none. While a server does not answer, Availability says so,
// and all calls for the pool are refused before they could wait for it.
//
//   /run/mooring-nfs/<plugin>/<pool>   the mount for tasks; <plugin> stands for the state directory
//   /run/mooring-nfs/<plugin>/.<pool>  the mount for the plugin's own files (PlaceForCalls)
//   <pool>/.mooring/start              a lock for the start of a plugin
//   <pool>/.mooring/host-<name>        the boot id of the host that file servers know by that name; rewritten while a
//                                      plugin of the host runs
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "base/keyed_lock.h"
#include "mounter/mounter.h"
#include "plugin/backends/interface/availability.h"
#include "plugin/catalog/store/catalog_store.h"
#include "plugin/config/config.h"
#include "plugin/process/resolver.h"

namespace mooring {

// The directory for the mount of a pool. Makes the directories above it, which only `config.user` and root may pass.
absl::StatusOr<std::string> MakeMountPlace(const Config& config, const std::string& pool);

// The address of the server of the mount at `place`. Empty: there is no mount of a server. `mount_info`: the text of
// /proc/self/mountinfo, proc(5).
std::string AddressOfMount(const std::string& mount_info, const std::string& place);

// UNAVAILABLE: one of the two mounts of a pool is gone. FAILED_PRECONDITION: they show two directories.
// DEADLINE_EXCEEDED: the server has not answered. It waits for the server of `calls` alone.
absl::Status CheckMounts(const std::string& calls, const std::string& tasks);

// A file server knows a host by its name. It takes a second host of that name for the first one after a restart, and
// frees the locks of the first. `records` is the directory of the pool's records. FAILED_PRECONDITION: another boot
// than `boot_id` has used the name within the last half minute.
absl::Status CheckHostName(const std::string& records, const std::string& host, const std::string& boot_id);
absl::Status RenewHostName(const std::string& records, const std::string& host, const std::string& boot_id);

class ExportPool {
 public:
  struct Parts {
    Config config;
    std::string boot_id;
    PoolConfig pool;
    std::shared_ptr<Availability> availability;
    Resolver& resolver;
    Mounter& mounter;
    CatalogStore& catalog;
    KeyedLocks& locks;
    // Called until it is OK: when the server answers again, after Availability::LeaveWork, and every few minutes.
    std::function<absl::Status()> reconcile;
  };

  // Starts the thread. The objects behind the references in `parts` outlive this object.
  explicit ExportPool(Parts parts);
  ~ExportPool();  // waits for the thread, which may wait for the server

  void Stop();  // the thread ends as soon as it does not wait for the server

 private:
  void Run();
  void ReconcileWhenAsked();
  void AskToReconcile();
  bool AwaitsWork();  // for the reconcile; false: Stop was called
  absl::Status Open();
  // Mounts it from the address of the mount at `other`, if there is one.
  absl::Status Mount(const OwnMount& own, const MountRequest& asked, const std::string& other);
  absl::Status Watch();  // until Stop, or until a mount is gone
  bool StopsWithin(std::chrono::seconds time);

  const Parts parts_;
  const PoolConfig place_;  // the pool at PlaceForCalls
  const std::string records_;
  UniqueFd presence_;  // as SharedPools::presence
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool to_reconcile_ = false;
  std::thread thread_, reconciler_;
};

}  // namespace mooring
