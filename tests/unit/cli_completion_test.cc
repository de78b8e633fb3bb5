// The completion scripts are scripts, and complete what the program has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/testing/own_directory.h"
#include "cli/testing/run_mooring.h"

namespace mooring::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Output(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    output.append(buffer.data(), got);
  }
  return output;
}

class CompletionTest : public testing::Test {
 protected:
  std::string Script(const std::string& shell) const {
    const std::string path = directory_.path() + "/" + shell;
    std::ofstream(path) << Mooring({"completion", shell}).out;
    return path;
  }

  // What bash offers for the last of `words`; the manager's names are those of a program in front of the real one.
  std::string Offered(const std::string& words) const {
    std::ofstream(directory_.path() + "/complete") << "mooring() { echo db-$1; }\n. " + Script("bash") +
                                                          "\nCOMP_WORDS=(" + words +
                                                          ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_mooring\n"
                                                          "printf '%s ' \"${COMPREPLY[@]}\"\n";
    return Output("bash " + directory_.path() + "/complete");
  }

  OwnDirectory directory_;
};

TEST_F(CompletionTest, BashOffersCommandsFlagsValuesAndNames) {
  EXPECT_EQ(Offered("mooring plug"), "plugin ");
  EXPECT_THAT(Offered("mooring plugin ''"), AllOf(HasSubstr("run "), HasSubstr("status "), Not(HasSubstr("create"))));
  EXPECT_EQ(Offered("mooring volume snapshot cr"), "create ");
  EXPECT_EQ(Offered("mooring watch --v"), "--volumes --verbose ");
  EXPECT_THAT(Offered("mooring plugin run --"),
              AllOf(HasSubstr("--exec "), HasSubstr("--image "), HasSubstr("--engine "), Not(HasSubstr("--size "))));
  EXPECT_EQ(Offered("mooring volume create db --acc"), "--access ");
  EXPECT_EQ(Offered("mooring volume create db --access multi-node-m"), "multi-node-multi-writer ");
  EXPECT_EQ(Offered("mooring attach db --propagation rs"), "rslave rshared ");
  EXPECT_EQ(Offered("mooring volume delete db"), "db-volume ");
  EXPECT_EQ(Offered("mooring volume list --plugin db"), "db-plugin ");
  EXPECT_EQ(Offered("mooring umount /usr/lib/os-releas"), "/usr/lib/os-release ");
}

TEST_F(CompletionTest, OtherShellsReadTheirScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string path = Script(shell);
    if (std::system(("command -v " + std::string(shell) + " >/dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((std::string(shell) + " -n " + path).c_str()), 0) << shell;
  }
  EXPECT_THAT(Mooring({"completion", "zsh"}).out, HasSubstr("('mooring volume create')"));
  EXPECT_THAT(Mooring({"completion", "fish"}).out,
              HasSubstr("complete -c mooring -n '__mooring_at \\'mooring volume\\'' -a create -d 'make a volume'"));
}

}  // namespace
}  // namespace mooring::cli
