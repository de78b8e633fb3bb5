// The candidates of `mooring __complete`, and how the script of each shell offers them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "manager.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Candidates(const std::string& words) { return RunLine("mooring __complete " + words).out; }

TEST(CandidatesTest, AreCommandsFlagsAndValues) {
  EXPECT_THAT(Candidates("''"), AllOf(HasSubstr("plugin\tRun and register"), HasSubstr("--version\t")));
  EXPECT_THAT(Candidates("plugin ''"), AllOf(HasSubstr("run\t"), HasSubstr("status\t"), Not(HasSubstr("create"))));
  EXPECT_THAT(Candidates("volume snapshot cr"), HasSubstr("create\tTake a snapshot of a volume\n"));
  EXPECT_THAT(Candidates("watch --v"), AllOf(HasSubstr("--volumes\t"), HasSubstr("--verbose\t"), HasSubstr("-v\t")));
  EXPECT_THAT(Candidates("manager ''"), AllOf(HasSubstr("migrate\t"), HasSubstr("--json\t")));
  EXPECT_THAT(Candidates("manager migrate --etcd-c"), HasSubstr("--etcd-ca\t"));
  EXPECT_THAT(Candidates("plugin run --"), AllOf(HasSubstr("--engine\t"), Not(HasSubstr("--size"))));
  EXPECT_THAT(Candidates("volume create db --access ''"), EndsWith("multi-node-multi-writer\n"));
  EXPECT_EQ(Candidates("claim db --mode ''"), "read\nwrite\n");
  EXPECT_EQ(Candidates("attach db --propagation rs"), "private\nrslave\nrshared\n");
  EXPECT_EQ(Candidates("claim db --mode=r"), "--mode=read\n--mode=write\n");
  EXPECT_EQ(Candidates("volume create --name ''"), "");
  EXPECT_EQ(Candidates("volume create --file ''"), ":files\n");
  EXPECT_THAT(Candidates("umount /u"), EndsWith("\n:files\n"));
  EXPECT_THAT(Candidates("umount --"), Not(HasSubstr(":files")));
}

TEST(CandidatesTest, AreNamesThatTheManagerKnows) {
  FakeServer manager;
  manager.script().Reply<manager::v1::ListVolumesResponse>(
      "volumes { key { id: 'db' } } volumes { key { id: 'web' } }");
  manager.script().Reply<manager::v1::ListPluginsResponse>("plugins { name: 'p.csi' }");
  manager.script().Reply<manager::v1::ListHostsResponse>("hosts { host { name: 'h1' } } hosts { host { name: 'h2' } }");
  ::setenv("MOORING_MANAGER_SOCKET", manager.socket().c_str(), 1);
  EXPECT_THAT(Candidates("volume delete d"), EndsWith("\ndb\nweb\n"));
  EXPECT_EQ(Candidates("volume list --plugin ''"), "p.csi\n");
  EXPECT_THAT(Candidates("plugin stop ''"), EndsWith("\np.csi\n"));
  EXPECT_EQ(Candidates("volume list --host ''"), "h1\nh2\n");
  EXPECT_THAT(Candidates("host drain ''"), EndsWith("\nh1\nh2\n"));
  manager.Stop();
  const Result result = RunLine("mooring __complete volume list --plugin ''");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.out + result.err, "");
  ::unsetenv("MOORING_MANAGER_SOCKET");
}

std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    output.append(buffer.data(), got);
  }
  return output;
}

// Runs the completion script of a shell, and `rest` after it. In place of `mooring`, a function prints the words that
// it gets as a candidate, and more candidates.
class CompletionScriptTest : public ::testing::Test {
 protected:
  std::string Offered(const std::string& shell, const std::string& start, const std::string& rest) const {
    std::ofstream(Path("script")) << RunLine("mooring completion " + shell.substr(0, shell.find(' '))).out;
    std::ofstream(Path("test")) << start << "\nsource " << Path("script") << '\n' << rest;
    return OutputOf(shell + " " + Path("test") + " 2>&1");
  }

  static bool Has(const std::string& shell) {
    return std::system(("command -v " + shell + " >/dev/null").c_str()) == 0;
  }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  mooring::testing::TempDir directory_;
};

constexpr char kStub[] = "mooring() { printf '%s\\n' 'frobnicate\tFrob it' '--all\tAll' 'db-1' \"db-$*\" :files; }\n";

TEST_F(CompletionScriptTest, BashOffersWhatBeginsWithTheWord) {
  const auto offered = [this](const std::string& words) {
    return Offered("bash", kStub, "COMP_WORDS=(" + words + R"sh()
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_mooring
printf '%s ' "${COMPREPLY[@]}")sh");
  };
  EXPECT_EQ(offered("mooring plugin frob"), "frobnicate ");
  EXPECT_EQ(offered("mooring --a"), "--all ");
  EXPECT_EQ(offered("mooring 'a b' db-"), "db-1 db-__complete a b db- ");
  EXPECT_EQ(offered("mooring /usr/lib/os-releas"), "/usr/lib/os-release ");
}

TEST_F(CompletionScriptTest, FishOffersDescriptionsAndFiles) {
  if (!Has("fish")) GTEST_SKIP() << "fish is not installed";
  const auto offered = [this](const std::string& line) {
    return Offered("fish --no-config",
                   R"(function mooring; printf '%s\n' frobnicate\tFrob --all\tAll db-1 "db-$argv" :files; end)",
                   "complete -C '" + line + "'\n");
  };
  EXPECT_EQ(offered("mooring plugin frob"), "frobnicate\tFrob\n");
  EXPECT_EQ(offered("mooring --a"), "--all\tAll\n");
  EXPECT_EQ(offered("mooring volume db-"), "db-1\ndb-__complete volume db-\n");
  EXPECT_EQ(offered("mooring /usr/lib/os-releas"), "/usr/lib/os-release\n");
}

// Stubs replace the functions of zsh.
TEST_F(CompletionScriptTest, ZshOffersDescriptionsAndFiles) {
  if (!Has("zsh")) GTEST_SKIP() << "zsh is not installed";
  const auto offered = [this](const std::string& words) {
    return Offered("zsh -f", kStub + std::string(R"(compdef() { : }
_describe() { print -l -- "${(@P)@[-1]}" }
compadd() { shift; print -l -- "$@" }
_files() { print files }
)"),
                   "words=(" + words + ")\nCURRENT=$#words\n_mooring\n");
  };
  EXPECT_EQ(offered("mooring volume ''"), "db-1\ndb-__complete volume \nfiles\nfrobnicate:Frob it\n");
  EXPECT_THAT(offered("mooring --a"), HasSubstr("frobnicate:Frob it\n--all:All\n"));
}

}  // namespace
}  // namespace mooring::cli
