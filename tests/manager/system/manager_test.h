// The fixture of the system tests: a manager process in a directory of its own, its plugins (ours, or the strict
// driver), and a client. TearDown detaches and deletes everything through the manager; nothing may stay mounted.
#pragma once

#include <functional>

#include "tests/manager/prelude.h"
#include "tests/manager/system/manager_client.h"
#include "tests/manager/system/manager_process.h"
#include "tests/support/kernel.h"

namespace mooring::testing {

inline constexpr char kOurPlugin[] = "mooring.csi";            // images on loop devices
inline constexpr char kStrictPlugin[] = "strict.example.org";  // tests/drivers/strict

class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest();
  void SetUp() override { Start(); }
  void TearDown() override;

  void Start();              // waits until the manager answers
  void Restart(int signal);  // ends it with SIGTERM or SIGKILL, then Start

  ManagerProcess& process() { return process_; }
  ManagerClient& client() { return *client_; }
  const TempDir& dir() const { return dir_; }
  std::string root() const { return dir_ / "state/mounts"; }

  // Runs a plugin under the manager and waits until it serves.
  void RunPlugin(const std::string& name, const std::vector<std::string>& more_flags = {});
  std::vector<std::string> PluginCommand(const std::string& name,
                                         const std::vector<std::string>& more_flags = {}) const;
  pid_t PluginPid(const std::string& name) const;  // of the process that the manager runs under this name

  // A volume of 32 MiB for one writer. Attached attaches it for allocation "web-1" at <dir>/<id>, and returns the path.
  v1::Volume VolumeOf(const std::string& id, const std::string& plugin) const;
  void Create(const std::string& id, const std::string& plugin);
  std::string Attached(const std::string& id);

  // Creates a block volume of our plugin. Returns the request that attaches it for "web-1" at <dir>/<id>.
  v1::AttachRequest CreateBlock(const std::string& id);

  // Faults of the strict driver: tests/drivers/strict/faults.py.
  void Inject(const std::string& method, const std::string& fault);
  void EndFault(const std::string& method);

  std::vector<MountLine> MountsHere() const;  // below the directory, without the root and mounts of plugins
  std::vector<std::string> MountIds() const;  // of MountsHere with their targets; a replaced mount has another id
  bool Eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience = std::chrono::seconds(10));

 private:
  void RemoveAll();

  TempDir dir_;
  ManagerProcess process_;
  std::unique_ptr<ManagerClient> client_;
};

}  // namespace mooring::testing
