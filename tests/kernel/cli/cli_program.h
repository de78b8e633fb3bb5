// The built program `mooring`, run as a user runs it.
#ifndef MOORING_TESTS_KERNEL_CLI_CLI_PROGRAM_H_
#define MOORING_TESTS_KERNEL_CLI_CLI_PROGRAM_H_

#include <string>
#include <vector>

#include "tests/kernel/kernel_test.h"

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

}  // namespace mooring::testing

#endif  // MOORING_TESTS_KERNEL_CLI_CLI_PROGRAM_H_
