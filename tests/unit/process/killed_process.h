// For tests of the catalogs: a process that is killed in the middle of a call.
#ifndef MOORING_TESTS_UNIT_PROCESS_KILLED_PROCESS_H_
#define MOORING_TESTS_UNIT_PROCESS_KILLED_PROCESS_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "tests/unit/catalog/volume_catalog_fixture.h"

namespace mooring::catalog_test {

// A real SIGKILL of a real process, at each place where the image is touched.
class KilledProcessTest : public VolumeCatalogTest {
 protected:
  // Runs `action` in a child that kills itself before or after the backend's `operation`.
  void Kill(const std::string& when, const std::string& operation, const std::function<void(Process&)>& action) {
    ASSERT_EQ(process_, nullptr) << "a database must not be open across a fork";
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Process doomed(directory_, loops_);
      const HookedBackend::Hook kill = [&](const std::string& what) {
        if (what == operation) ::kill(::getpid(), SIGKILL);
        return absl::OkStatus();
      };
      (when == "before" ? doomed.backend.before : doomed.backend.after) = kill;
      action(doomed);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended otherwise";
  }

  void RestartAndReconcile() {
    process_.reset();
    const absl::Status snapshots = here().snapshots.Reconcile();
    EXPECT_TRUE(snapshots.ok()) << snapshots;
    const absl::Status volumes = catalog().Reconcile();
    EXPECT_TRUE(volumes.ok()) << volumes;
    ExpectConsistent();
  }

  std::string CreatedBefore(const std::string& name) {
    std::string id = Created(name);
    process_.reset();
    return id;
  }
};

}  // namespace mooring::catalog_test

#endif  // MOORING_TESTS_UNIT_PROCESS_KILLED_PROCESS_H_
