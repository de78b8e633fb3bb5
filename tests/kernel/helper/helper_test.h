// A real mooring-mounter, started as a plugin starts it, which may mount below "csi" what lies in "volumes", and the
// devices behind "links/disk-*", all in the test's directory. Whatever the test does to it, no process of it is there
// afterwards.
#ifndef MOORING_TESTS_KERNEL_HELPER_HELPER_TEST_H_
#define MOORING_TESTS_KERNEL_HELPER_HELPER_TEST_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "mounter/helper/helper_mounter.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {

class HelperProcessTest : public KernelTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string Image(const std::string& name) const { return Path("volumes/" + name); }
  std::string Target(const std::string& name) const { return Path("csi/" + name); }
  MountRequest MountOfImage(const std::string& name, const std::string& target) const;

  absl::StatusOr<Keeper> StartKeeper(const std::string& program = MOORING_MOUNTER_BINARY);
  std::string HelperLog() const { return ReadFile(Path("helper.log")); }  // of all keepers and helpers of this test

  std::vector<pid_t> seen_;  // keepers and helpers, to be gone at the end
};

// With the client that the plugin has.
class HelperTest : public HelperProcessTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  HelperMounter& helper() { return *helper_; }
  void EndHelper() { helper_.reset(); }
  pid_t keeper_pid() const { return keeper_pid_; }
  void KillHelper();           // SIGKILL, waits for nothing
  bool AwaitNext(pid_t last);  // until another one serves
  bool EventuallyAnswers();    // a Find

  std::atomic<int> lost_{0};

 private:
  pid_t keeper_pid_ = -1;
  std::unique_ptr<HelperMounter> helper_;
};

std::string StatusField(pid_t pid, const std::string& key);  // "CapEff" of /proc/PID/status
bool Stopped(pid_t pid);                                     // by SIGSTOP

}  // namespace mooring::testing

#endif  // MOORING_TESTS_KERNEL_HELPER_HELPER_TEST_H_
