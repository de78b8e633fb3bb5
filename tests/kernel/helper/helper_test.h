// Starts a real mooring-mounter as a plugin does. In the directory of the test it may mount images in "volumes" and
// devices behind "links/disk-*" below "csi". Afterwards the fixture checks that all its processes have ended.
#pragma once

#include "mounter/helper/helper_mounter.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {

std::unique_ptr<HelperMounter> StartHelper(const HelperPolicy& policy);  // a helper that logs errors to stderr

class HelperProcessTest : public KernelTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string Image(const std::string& name) const { return Path("volumes/" + name); }
  std::string Target(const std::string& name) const { return Path("csi/" + name); }
  MountRequest MountOfImage(const std::string& name, const std::string& target) const;

  absl::StatusOr<HelperSpawner> StartSpawner(const std::string& program = MOORING_MOUNTER_BINARY);
  std::string HelperLog() const { return ReadFile(Path("helper.log")); }  // of all spawners and helpers of this test

  std::vector<pid_t> seen_;  // spawners and helpers, to be gone at the end
};

// Adds the plugin's client.
class HelperTest : public HelperProcessTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  HelperMounter& helper() { return *helper_; }
  void EndHelper() { helper_.reset(); }
  pid_t spawner_pid() const { return spawner_pid_; }
  void KillHelper();           // SIGKILL, waits for nothing
  bool AwaitNext(pid_t last);  // until another one serves
  bool EventuallyAnswers();    // a Find

  std::atomic<int> lost_{0};

 private:
  pid_t spawner_pid_ = -1;
  std::unique_ptr<HelperMounter> helper_;
};

// With an image among the volumes, and one outside that no call may change.
class HelperGuardTest : public HelperTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  void Stage() { ASSERT_OK(helper().Mount(MountOfImage("a.img", "staged"))); }
};

bool Stopped(pid_t pid);  // by SIGSTOP

}  // namespace mooring::testing
