#include "tests/unit/cli/run_mooring.h"

#include <sstream>

#include "cli/run.h"

namespace mooring::cli {

Result Mooring(const std::vector<std::string>& arguments) { return RunAs("mooring", arguments); }

Result RunAs(const char* name, const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{name};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status = Run(static_cast<int>(argv.size()), argv.data(), out, err);
  return {status, out.str(), err.str()};
}

}  // namespace mooring::cli
