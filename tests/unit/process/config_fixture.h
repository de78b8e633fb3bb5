// Parses flags and variables of the plugin.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "plugin/config/config.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {

// Variables for one test, whatever the environment of the test run is.
class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override { UnsetVariables(); }
  void TearDown() override { UnsetVariables(); }
  static void UnsetVariables() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string variable = *entry;
      const bool is_ours = variable.starts_with("MOORING_") || variable.starts_with("CSI_ENDPOINT=");
      if (is_ours) names.push_back(variable.substr(0, variable.find('=')));
    }
    for (const std::string& name : names) ::unsetenv(name.c_str());
  }

  absl::StatusOr<Config> Parse(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"mooring-plugin"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return ParseConfig(static_cast<int>(argv.size()), argv.data());
  }

  // With an endpoint, so that only `arguments` can be wrong.
  absl::StatusOr<Config> ParseServing(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--endpoint", "/run/csi.sock"});
    return Parse(arguments);
  }

  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& text) {
    const absl::StatusOr<Config> config = ParseServing(arguments);
    ASSERT_TRUE(absl::IsInvalidArgument(config.status())) << config.status();
    EXPECT_THAT(Message(config.status()), AllOf(HasSubstr(text), Not(HasSubstr("\n"))));
  }
};

}  // namespace mooring::testing
