#include "tests/kernel/cli/cli_program.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <filesystem>
#include <sstream>

namespace mooring::testing {

int CliTest::Shell(const std::string& command) const {
  const std::string programs = std::filesystem::path(MOORING_BINARY).parent_path();
  return Tool(fmt::format("cd '{}' && PATH={}:$PATH LC_ALL=C.UTF-8 && export PATH LC_ALL && {}", dir_.path(), programs,
                          command));
}

Ran CliTest::Mooring(const std::string& arguments, const std::string& before) const {
  const std::string out = Path("stdout of mooring"), err = Path("stderr of mooring");
  Ran ran;
  ran.status = Shell(fmt::format("{} mooring {} >'{}' 2>'{}' </dev/null", before, arguments, out, err));
  ran.out = ReadFile(out);
  ran.err = ReadFile(err);
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return ran;
}

std::vector<std::string> CliTest::Commands(const Ran& ran) {
  std::vector<std::string> commands;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  # ")) commands.push_back(line.substr(4));
  }
  return commands;
}

int CliTest::RunCommands(const Ran& ran) const {
  for (const std::string& command : Commands(ran)) {
    if (const int status = Shell(command + " >/dev/null"); status != 0) return status;
  }
  return 0;
}

Ran CliDoctorTest::Doctor(const std::string& arguments) const {
  return Mooring("doctor --state-dir " + Path("state") + " " + arguments);
}

Ran CliDoctorTest::ExpectRepaired(const std::string& arguments, const std::string& finding) const {
  const Ran found = Doctor(arguments);
  EXPECT_EQ(found.status, kFindings) << found.err;
  EXPECT_THAT(found.out, ::testing::HasSubstr("problem (" + finding + ")"));
  EXPECT_EQ(RunCommands(found), 0) << found.out;
  const Ran repaired = Doctor(arguments);
  EXPECT_EQ(repaired.status, 0) << repaired.out;
  return found;
}

std::string CliDoctorTest::AsSeenBy(const MountNamespace& task) { return fmt::format(" --pid {}", task.pid()); }

std::string CliDoctorTest::CountIn(const MountNamespace& task, const std::string& path) {
  return task.Ask([&] { return fmt::format("{}", MountsAt(path).size()); });
}

std::string CliDoctorTest::Volume(const std::string& name) const {
  EXPECT_EQ(::mount("volume", Dir(name).c_str(), "tmpfs", 0, "size=64k"), 0);
  return Path(name);
}

}  // namespace mooring::testing
