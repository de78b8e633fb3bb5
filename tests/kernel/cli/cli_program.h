// The built program `mooring`, run as a user runs it.
#pragma once

#include <string>
#include <vector>

#include "tests/kernel/kernel_test.h"
#include "tests/kernel/mount/namespaces.h"

namespace mooring::testing {

struct Ran {
  int status = 0;
  std::string out, err;
};

class CliTest : public KernelTest {
 protected:
  // "mooring <arguments>", as the shell reads them, in the test's directory; `before`: "setpriv … ".
  Ran Mooring(const std::string& arguments, const std::string& before = "") const;

  int Shell(const std::string& command) const;  // in that directory, with mooring and mooring-plugin on the PATH

  // The commands that doctor prints, and running them in their order: the first status that is not 0.
  static std::vector<std::string> Commands(const Ran& ran);
  int RunCommands(const Ran& ran) const;
};

class CliDoctorTest : public CliTest {
 protected:
  static constexpr int kFindings = 3;  // the exit status

  Ran Doctor(const std::string& arguments) const;

  // `doctor` finds the problem, and the commands that it prints repair it. Returns what it printed.
  Ran ExpectRepaired(const std::string& arguments, const std::string& finding) const;

  static std::string AsSeenBy(const MountNamespace& task);
  static std::string CountIn(const MountNamespace& task, const std::string& path);

  // A volume is a tmpfs, so that no copy of the host's own filesystem shows it.
  std::string Volume(const std::string& name) const;
};

}  // namespace mooring::testing
