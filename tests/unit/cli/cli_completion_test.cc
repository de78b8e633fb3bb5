// The completion scripts are valid, and complete the commands of the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Output(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    output.append(buffer.data(), got);
  }
  return output;
}

class CompletionTest : public ::testing::Test {
 protected:
  std::string Script(const std::string& shell) const {
    const std::string path = directory_.path() + "/" + shell;
    std::ofstream(path) << Mooring({"completion", shell}).out;
    return path;
  }

  // The completions of bash for the last of `words`. A shell function replaces `mooring`, and prints names of volumes.
  std::string Offered(const std::string& words) const {
    std::ofstream(directory_.path() + "/complete") << "mooring() { echo db-$1; }\n. " + Script("bash") +
                                                          "\nCOMP_WORDS=(" + words +
                                                          ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_mooring\n"
                                                          "printf '%s ' \"${COMPREPLY[@]}\"\n";
    return Output("bash " + directory_.path() + "/complete");
  }

  // The completions of fish for the end of `line`: one on each line, with its description.
  std::string OfferedByFish(const std::string& line) const {
    std::ofstream(directory_.path() + "/complete")
        << "function mooring; echo db-$argv[1]; end\nsource " + Script("fish") + "\ncomplete -C '" + line + "'\n";
    return Output("fish --no-config " + directory_.path() + "/complete");
  }

  // The completions that the script gives to zsh for the last word of `line`. Stubs replace the functions of zsh.
  std::string OfferedByZsh(const std::string& line) const {
    std::ofstream(directory_.path() + "/complete") << R"(compdef() { : }
_describe() { print -l -- "${(@P)@[-1]}" }
compadd() { shift; print -l -- "$@" }
_files() { print files }
mooring() { echo db-$1 }
source )" + Script("zsh") + "\nwords=(" + line + ")\nCURRENT=$#words\n_mooring\n";
    return Output("zsh -f " + directory_.path() + "/complete");
  }

  static bool Has(const std::string& shell) {
    return std::system(("command -v " + shell + " >/dev/null").c_str()) == 0;
  }

  mooring::testing::TempDir directory_;
};

TEST_F(CompletionTest, BashOffersCommandsFlagsValuesAndNames) {
  EXPECT_EQ(Offered("mooring plug"), "plugin ");
  EXPECT_THAT(Offered("mooring plugin ''"), AllOf(HasSubstr("run "), HasSubstr("status "), Not(HasSubstr("create"))));
  EXPECT_EQ(Offered("mooring volume snapshot cr"), "create ");
  EXPECT_EQ(Offered("mooring watch --v"), "--volumes --verbose ");
  EXPECT_EQ(Offered("mooring csi probe --l"), "--liveness ");
  EXPECT_THAT(Offered("mooring plugin run --"),
              AllOf(HasSubstr("--exec "), HasSubstr("--image "), HasSubstr("--engine "), Not(HasSubstr("--size "))));
  EXPECT_EQ(Offered("mooring volume create db --acc"), "--access ");
  EXPECT_EQ(Offered("mooring volume create db --access multi-node-m"), "multi-node-multi-writer ");
  EXPECT_EQ(Offered("mooring attach db --propagation rs"), "rslave rshared ");
  EXPECT_EQ(Offered("mooring volume delete db"), "db-volume ");
  EXPECT_EQ(Offered("mooring volume list --plugin db"), "db-plugin ");
  EXPECT_EQ(Offered("mooring umount /usr/lib/os-releas"), "/usr/lib/os-release ");
}

TEST_F(CompletionTest, FishOffersCommandsFlagsValuesAndNames) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_THAT(OfferedByFish("mooring plug"), StartsWith("plugin\t"));
  EXPECT_THAT(OfferedByFish("mooring plugin run --"),
              AllOf(HasSubstr("--exec\t"), HasSubstr("--image\t"), HasSubstr("--engine\t"), Not(HasSubstr("--size"))));
  EXPECT_THAT(OfferedByFish("mooring volume create db --access multi-node-m"), StartsWith("multi-node-multi-writer\t"));
  EXPECT_THAT(OfferedByFish("mooring attach db --propagation rs"),
              AllOf(HasSubstr("rslave\t"), HasSubstr("rshared\t"), Not(HasSubstr("private\t"))));
  EXPECT_EQ(OfferedByFish("mooring volume delete d"), "db-volume\n");
  EXPECT_THAT(OfferedByFish("mooring volume list --plugin d"), StartsWith("db-plugin"));
}

TEST_F(CompletionTest, ZshOffersCommandsFlagsValuesAndNames) {
  if (!Has("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_THAT(OfferedByZsh("mooring plug"), AllOf(HasSubstr("plugin:"), HasSubstr("watch:")));
  EXPECT_THAT(OfferedByZsh("mooring plugin run --"),
              AllOf(HasSubstr("--exec:"), HasSubstr("--image:"), HasSubstr("--engine:"), Not(HasSubstr("--size"))));
  EXPECT_THAT(OfferedByZsh("mooring volume create db --access m"), HasSubstr("multi-node-multi-writer\n"));
  EXPECT_EQ(OfferedByZsh("mooring attach db --propagation r"), "private\nrslave\nrshared\n");
  EXPECT_EQ(OfferedByZsh("mooring volume delete d"), "db-volume\n");
  EXPECT_EQ(OfferedByZsh("mooring volume list --plugin d"), "db-plugin\n");
  EXPECT_EQ(OfferedByZsh("mooring umount /u"), "files\n");
}

TEST_F(CompletionTest, ScriptsHaveValidSyntax) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string path = Script(shell);
    if (!Has(shell)) continue;
    EXPECT_EQ(std::system((std::string(shell) + " -n " + path).c_str()), 0) << shell;
  }
  EXPECT_THAT(Mooring({"completion", "zsh"}).out, HasSubstr("('mooring volume create')"));
  EXPECT_THAT(Mooring({"completion", "fish"}).out,
              HasSubstr("complete -c mooring -n '__mooring_at \\'mooring volume\\'' -a create -d 'Create a volume'"));
}

}  // namespace
}  // namespace mooring::cli
