// The real mooring-manager, a plugin that runs beside it, and two volumes. The Expect methods check the volumes with
// the manager, the kernel and the files. The checks hold after any crash of the manager.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/crash/step_trap.h"
#include "tests/manager/system/manager_client.h"
#include "tests/manager/system/manager_process.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {

class ManagerSubject {
 public:
  ManagerSubject(StepTrap& trap, const TempDir& dir, std::string plugin_socket);

  // Launch puts the manager under the step trap.
  void Launch();
  bool IsReady();  // waits until the manager serves and has restored its attachments; false: it has ended
  void Kill();

  // Registers the plugin, creates both volumes and attaches the bystander. No other call may change the bystander.
  void Prepare();
  void TakeDown();

  absl::Status Attach();
  absl::Status Detach();
  absl::Status CreateThird();  // another volume, which is not there at first
  absl::Status DeleteThird();

  // Checks.
  void ExpectAttached();  // once, with its data and a claim
  void ExpectDetached();  // no mount, no claim, no record, no directory
  void ExpectSettled();   // waits until the volume is attached or detached
  void ExpectBystander();
  void ExpectThird(bool there);

  std::string Log() const { return process_.Log(); }

 private:
  absl::Status Create(const std::string& id);
  v1::GetVolumeResponse See(const std::string& volume);
  std::string PathOf(const std::string& volume) const { return dir_ / ("srv/" + volume); }
  std::vector<std::string> MountsOf(const std::string& volume) const;  // made by the manager and by the plugin

  StepTrap& trap_;
  const TempDir& dir_;
  const std::string plugin_socket_;
  ManagerProcess process_;
  std::unique_ptr<ManagerClient> client_;
  std::string bystander_mount_;  // its id
};

}  // namespace mooring::testing
