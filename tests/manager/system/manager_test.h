// The fixture of the system tests: a manager of the test's own as a process, in a directory of the test's own; plugins
// under it, ours or the one in Python; a client. At the end everything is taken back through the manager, and nothing
// may be left mounted.
#ifndef MOORING_TESTS_MANAGER_SYSTEM_MANAGER_TEST_H_
#define MOORING_TESTS_MANAGER_SYSTEM_MANAGER_TEST_H_

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/manager/system/manager_client.h"
#include "tests/manager/system/manager_process.h"
#include "tests/support/kernel.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {

inline constexpr char kOurPlugin[] = "mooring.csi";          // images on loop devices
inline constexpr char kTmpfsPlugin[] = "tmpfs.example.org";  // tests/manager/plugins/tmpfs_plugin.py

class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest();
  void SetUp() override { Start(); }
  void TearDown() override;

  void Start();              // and waits until it answers
  void Restart(int signal);  // SIGTERM or SIGKILL, then Start

  ManagerProcess& process() { return process_; }
  ManagerClient& client() { return *client_; }
  const TempDir& dir() const { return dir_; }
  std::string root() const { return dir_ / "state/mounts"; }

  // Runs it under the manager and waits until it serves.
  void RunPlugin(const std::string& name, const std::vector<std::string>& more_flags = {});
  std::vector<std::string> PluginCommand(const std::string& name, const std::vector<std::string>& more_flags) const;
  pid_t PluginPid(const std::string& name) const;  // of the process that the manager runs under this name

  // A volume of 32 MiB, for one writer; attached for allocation "web-1" at <dir>/<id>, which is the answer.
  v1::Volume VolumeOf(const std::string& id, const std::string& plugin) const;
  void Create(const std::string& id, const std::string& plugin);
  std::string Attached(const std::string& id);

  // Faults of the Python plugin, see there: its methods read them.
  std::vector<std::string> WithFaults() const { return {"--faults", dir_ / "faults"}; }
  void Inject(const std::string& method, const std::string& fault);
  void EndFault(const std::string& method);

  std::vector<MountLine> MountsHere() const;  // below the directory, but for the root and what plugins keep there
  bool Eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience = std::chrono::seconds(10));

 private:
  void TakeBack();

  TempDir dir_;
  ManagerProcess process_;
  std::unique_ptr<ManagerClient> client_;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_MANAGER_SYSTEM_MANAGER_TEST_H_
