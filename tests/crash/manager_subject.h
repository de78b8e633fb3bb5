// The real mooring-manager over a plugin that runs beside it, two volumes, and what must hold of them whatever became
// of the manager: asked of the manager, of the kernel and of the files.
#ifndef MOORING_TESTS_CRASH_MANAGER_SUBJECT_H_
#define MOORING_TESTS_CRASH_MANAGER_SUBJECT_H_

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

  // The manager: its steps are trapped.
  void Launch();
  bool IsReady();  // serves, and has looked at what was attached before; false where it has ended, or never is
  void Kill();

  // Registers the plugin, makes the volumes and attaches the bystander, which nothing below may touch.
  void Prepare();
  void TakeDown();

  absl::Status Attach();
  absl::Status Detach();

  // What must hold.
  void ExpectAttached();  // once, with its data, and claimed
  void ExpectDetached();  // no mount, no claim, no record, no directory
  void ExpectSettled();   // one of the two, once what was begun has settled
  void ExpectBystander();

  std::string Log() const { return process_.Log(); }

 private:
  void Create(const std::string& id);
  v1::GetVolumeResponse See(const std::string& volume);
  std::string PathOf(const std::string& volume) const { return dir_ / ("srv/" + volume); }
  std::vector<std::string> MountsOf(const std::string& volume) const;  // the manager's and the plugin's for it

  StepTrap& trap_;
  const TempDir& dir_;
  const std::string plugin_socket_;
  ManagerProcess process_;
  std::unique_ptr<ManagerClient> client_;
  std::string bystander_mount_;  // its id
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_CRASH_MANAGER_SUBJECT_H_
