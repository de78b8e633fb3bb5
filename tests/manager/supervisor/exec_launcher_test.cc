#include "manager/launch/exec_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <sstream>

#include "base/file/unique_fd.h"
#include "manager/launch/held_child.h"
#include "manager/launch/plugin_process.h"
#include "manager/launch/process_log.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {
namespace {

using manager::Clock;
using manager::EndDeadline;
using manager::ExecLauncher;
using manager::Launched;
using manager::LaunchSpec;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ExecLauncherTest : public ::testing::Test {
 protected:
  ~ExecLauncherTest() override {
    for (const auto& process : started_) (void)process->End(EndDeadline(Clock::now()));
  }

  LaunchSpec Shell(const std::string& script) {
    LaunchSpec spec;
    spec.plugin = "p";
    spec.instance_id = "p-1";
    spec.run.command = {"sh", "-c", script};
    spec.socket_directory = directory_.path();
    return spec;
  }

  Launched& Launch(const LaunchSpec& spec) {
    auto process = ExecLauncher().Launch(spec, Soon());
    EXPECT_OK(process);
    started_.push_back(*std::move(process));
    return *started_.back();
  }

  // Where a script tells a pid.
  std::string Ready() {
    const std::string path = directory_ / "ready";
    ::mkfifo(path.c_str(), 0600);
    return path;
  }
  // A plugin, as far as the launcher sees one: it serves the socket, and tells its pid then.
  std::string Serving() {
    return "python3 -c 'import os, socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"" +
           (directory_ / "csi.sock") + "\")\ns.listen()\nopen(\"" + Ready() +
           "\", \"w\").write(str(os.getpid()))\ntime.sleep(1000)'";
  }
  // The one that has told its pid.
  std::unique_ptr<Launched> Child() {
    const auto identity = manager::IdentityOf(std::stoi(Read(Ready())));
    EXPECT_OK(identity);
    auto child = manager::PluginProcess::Open(*identity, "/nonexistent");
    EXPECT_OK(child);
    return *std::move(child);
  }

  static Clock::time_point Soon() { return Clock::now() + seconds(20); }

  static bool WaitForEnd(Launched& process) {
    pollfd waited = {process.ExitFd(), POLLIN, 0};
    return ::poll(&waited, 1, 20'000) == 1 && !process.IsAlive();
  }

  // What the script writes, once it has ended.
  std::string Output(const std::string& script) {
    Launched& process = Launch(Shell(script));
    EXPECT_TRUE(WaitForEnd(process));
    return Read(directory_ / "log");
  }

  TempDir directory_;
  std::vector<std::unique_ptr<Launched>> started_;
};

TEST_F(ExecLauncherTest, J1_TheProgramIsToldItsEndpointAndNothingOfTheManagersOwnSettings) {
  ::setenv("MOORING_MANAGER_GROUP", "staff", 1);
  ::setenv("NOTIFY_SOCKET", "/run/notify", 1);
  LaunchSpec spec = Shell("env");
  spec.run.environment = {{"TOKEN", "a b"}, {"CSI_ENDPOINT", "unix:///elsewhere"}};
  const bool ended = WaitForEnd(Launch(spec));
  ::unsetenv("MOORING_MANAGER_GROUP");
  ::unsetenv("NOTIFY_SOCKET");
  ASSERT_TRUE(ended);
  const std::string environment = Read(directory_ / "log");
  EXPECT_THAT(environment, HasSubstr("CSI_ENDPOINT=unix://" + directory_.path() + "/csi.sock\n"));
  EXPECT_THAT(environment, HasSubstr("TOKEN=a b\n"));
  EXPECT_THAT(environment, HasSubstr("PATH="));
  EXPECT_THAT(environment, AllOf(Not(HasSubstr("MOORING_MANAGER")), Not(HasSubstr("NOTIFY_SOCKET"))));
}

TEST_F(ExecLauncherTest, J1_ItInheritsNoDescriptorAndNoSignalSetting) {
  std::signal(SIGUSR1, SIG_IGN);
  const std::string output = Output("ls -l /proc/self/fd | wc -l; grep SigIgn /proc/self/status");
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_THAT(output, HasSubstr("5\n"));  // 0, 1, 2, the directory itself, and the line above them
  EXPECT_THAT(output, HasSubstr("SigIgn:\t0000000000000000"));
}

TEST_F(ExecLauncherTest, J1_AProgramThatIsNotThereIsRefusedByName) {
  LaunchSpec spec = Shell("");
  const auto invalid = absl::StatusCode::kInvalidArgument;
  for (const char* name : {"no-such-program", "./relative", "/no/such/program"}) {
    spec.run.command = {name};
    EXPECT_THAT(ExecLauncher().Launch(spec, Soon()).status(), FailsWith(invalid, name));
  }
}

TEST_F(ExecLauncherTest, J1_AFileThatIsNoProgramIsRefusedWithWhatTheKernelSays) {
  const std::string path = directory_ / "garbage";
  std::ofstream(path) << "neither ELF nor script";
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  LaunchSpec spec = Shell("");
  spec.run.command = {path};
  EXPECT_THAT(ExecLauncher().Launch(spec, Soon()).status(),
              FailsWith(absl::StatusCode::kInternal, "Exec format error"));
}

TEST_F(ExecLauncherTest, J2_HowItEndedAndItsLastLinesAreItsLastWords) {
  Launched& process = Launch(Shell("echo starting; echo 'cannot open /dev/x' >&2; exit 3"));
  ASSERT_TRUE(WaitForEnd(process));
  EXPECT_THAT(process.Words(), HasSubstr("ended with exit code 3; its last words: starting | cannot open /dev/x"));
}

TEST_F(ExecLauncherTest, J2_AKilledOneSaysByWhichSignal) {
  Launched& process = Launch(Shell("kill -9 $$"));
  ASSERT_TRUE(WaitForEnd(process));
  EXPECT_THAT(process.Words(), HasSubstr("was ended by signal 9 (Killed)"));
}

TEST_F(ExecLauncherTest, J4_EndSendsSigtermFirst) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  Launched& process = Launch(
      Shell("trap 'echo bye; exit 0' TERM; echo > '" + (directory_ / "ready") + "'; while :; do sleep 0.05; done"));
  Read(directory_ / "ready");
  EXPECT_OK(process.End(EndDeadline(Soon())));
  EXPECT_FALSE(process.IsAlive());
  EXPECT_THAT(process.Words(), AllOf(HasSubstr("ended with exit code 0; its last words: "), HasSubstr("bye")));
  EXPECT_OK(process.End(EndDeadline(Soon())));  // gone already
}

TEST_F(ExecLauncherTest, J4_OneThatDoesNotHeedItIsKilledAtTheDeadline) {
  Launched& process = Launch(Shell("trap '' TERM; echo > '" + Ready() + "'; while :; do sleep 0.05; done"));
  Read(Ready());
  EXPECT_OK(process.End(EndDeadline(Clock::now() + milliseconds(50))));
  EXPECT_FALSE(process.IsAlive());
  EXPECT_THAT(process.Words(), HasSubstr("signal 9"));
}

TEST_F(ExecLauncherTest, J4_ADeadlineMayBeBroughtForwardOrGivenUpWhileItIsWaitedFor) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  Launched& process =
      Launch(Shell("trap 'echo > \"" + Ready() + "\"' TERM; echo > '" + Ready() + "'; while :; do sleep 0.05; done"));
  Read(Ready());
  const auto end = [&](EndDeadline& deadline) {
    auto ended = std::async(std::launch::async, [&] { return process.End(deadline); });
    Read(Ready());  // it was sent SIGTERM
    return ended;
  };
  const auto start = Clock::now();
  EndDeadline given_up(Clock::now() + seconds(60));
  auto ended = end(given_up);
  given_up.GiveUp();
  EXPECT_THAT(ended.get(), FailsWith(absl::StatusCode::kCancelled, "not waited for"));
  EXPECT_TRUE(process.IsAlive());

  EndDeadline lowered(Clock::now() + seconds(60));
  ended = end(lowered);
  lowered.Lower(Clock::now() + seconds(90));
  lowered.Lower(Clock::now());
  EXPECT_OK(ended.get());
  EXPECT_THAT(process.Words(), HasSubstr("signal 9"));
  EXPECT_LT(Clock::now() - start, seconds(30));
}

TEST_F(ExecLauncherTest, J4_APluginThatAScriptStartedIsEndedWithTheScript) {
  Launched& process = Launch(Shell(Serving() + " & wait"));
  const auto plugin = Child();
  EXPECT_OK(process.End(EndDeadline(Soon())));
  EXPECT_FALSE(plugin->IsAlive());
}

TEST_F(ExecLauncherTest, J4_APluginThatAScriptStartedIsKilledWithTheScript) {
  Launched& process = Launch(Shell("trap '' TERM; " + Serving() + " & wait; sleep 1000"));
  const auto plugin = Child();
  EXPECT_OK(process.End(EndDeadline(Clock::now() + milliseconds(50))));
  EXPECT_FALSE(plugin->IsAlive());
}

// It is in the plugin's group, and may serve a mount, as a FUSE daemon does. One with a signal on its way answers
// nothing.
TEST_F(ExecLauncherTest, J4_WhatElseAPluginHasStartedGoesOn) {
  const std::string question = directory_ / "question", answer = directory_ / "answer";
  ASSERT_EQ(::mkfifo(question.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(answer.c_str(), 0600), 0);
  for (const char* trap : {"", "trap '' TERM; "}) {
    const UniqueFd ask(::open(question.c_str(), O_RDWR | O_CLOEXEC));  // the daemon ends when it is closed
    const UniqueFd hear(::open(answer.c_str(), O_RDWR | O_CLOEXEC));
    Launched& process = Launch(
        Shell(trap + ("cat '" + question + "' > '" + answer + "' & echo > '" + Ready()) + "'; wait; sleep 1000"));
    Read(Ready());
    EXPECT_OK(process.End(EndDeadline(Clock::now() + milliseconds(50))));
    EXPECT_FALSE(process.IsAlive());
    ASSERT_EQ(::write(ask.get(), "?", 1), 1);
    pollfd heard = {hear.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&heard, 1, 10'000), 1) << "after '" << trap << "'";
    char byte = 0;
    EXPECT_EQ(heard.revents & POLLIN ? ::read(hear.get(), &byte, 1) : 1, 1);
  }
}

TEST_F(ExecLauncherTest, J3_WhatAScriptThatDiedHasStartedIsEnded) {
  Launched& process = Launch(Shell("trap '' TERM; " + Serving() + " & exit 3"));
  const auto plugin = Child();
  EXPECT_TRUE(WaitForEnd(process));
  EXPECT_THAT(process.Words(), HasSubstr("exit code 3"));
  EXPECT_OK(process.End(EndDeadline(Soon())));
  EXPECT_TRUE(WaitForEnd(*plugin));
}

// The socket tells of the process that called listen(2), which need not have it any more: its pid may be a stranger's.
TEST_F(ExecLauncherTest, J3_OneThatDoesNotHaveTheSocketOpenIsNotTakenForItsServer) {
  const std::string question = directory_ / "question", answer = directory_ / "answer", end = directory_ / "end";
  for (const std::string& fifo : {question, answer, end}) ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd ask(::open(question.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd hear(::open(answer.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd ends(::open(end.c_str(), O_RDWR | O_CLOEXEC));  // the one that has it, when this is closed
  const std::string listens = "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"" +
                              (directory_ / "csi.sock") + "\")\ns.listen()\n";
  // Opened before anybody goes on: after the test's end it would wait for ever for somebody who writes.
  const std::string hands_on =
      "end = open(\"" + end + "\")\nif os.fork() == 0:\n  end.read()\n  os._exit(0)\ns.close()\n";
  const std::string answers = "open(\"" + Ready() + "\", \"w\").write(\"x\")\nopen(\"" + question +
                              "\", \"rb\", 0).read(1)\nopen(\"" + answer + "\", \"wb\", 0).write(b\"!\")";
  Launched& process = Launch(Shell("python3 -c '" + listens + hands_on + answers + "' & exit 3"));
  Read(Ready());
  EXPECT_TRUE(WaitForEnd(process));
  EXPECT_OK(process.End(EndDeadline(Soon())));
  ASSERT_EQ(::write(ask.get(), "?", 1), 1);
  pollfd heard = {hear.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&heard, 1, 10'000), 1) << "it was killed";
}

// Launches in a process of its own, a manager that is killed right after.
TEST_F(ExecLauncherTest, J2_ItOutlivesTheManagerAndIsAdoptedByTheNext) {
  const LaunchSpec spec = Shell("exec sleep 1000");
  const pid_t manager = ::fork();
  if (manager == 0) {
    const auto launched = ExecLauncher().Launch(spec, Soon());
    ::_exit(launched.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(manager, &status, 0), manager);
  ASSERT_EQ(status, 0);
  auto adopted = ExecLauncher().Adopt(spec);
  ASSERT_OK(adopted);
  EXPECT_TRUE((*adopted)->IsAlive());
  EXPECT_OK((*adopted)->End(EndDeadline(Soon())));
  EXPECT_FALSE((*adopted)->IsAlive());
  EXPECT_THAT(ExecLauncher().Adopt(spec).status(), FailsWith(absl::StatusCode::kNotFound, "process"));
}

TEST_F(ExecLauncherTest, J2_AnotherProcessWithItsPidIsNotTakenForIt) {
  const LaunchSpec spec = Shell("exec sleep 1000");
  Launch(spec);
  std::istringstream before(Read(directory_ / "process"));
  std::string pid;
  std::string start_time;
  std::string boot;
  before >> pid >> start_time >> boot;
  std::ofstream(directory_ / "process") << pid << ' ' << start_time << "1 " << boot << '\n';
  EXPECT_THAT(ExecLauncher().Adopt(spec).status(), FailsWith(absl::StatusCode::kNotFound, "another one now"));
  std::ofstream(directory_ / "process") << pid << ' ' << start_time << ' ' << "another-boot\n";
  EXPECT_THAT(ExecLauncher().Adopt(spec).status(), FailsWith(absl::StatusCode::kNotFound, "another one now"));
}

TEST_F(ExecLauncherTest, J2_WhatWasNeverLaunchedIsNotFound) {
  EXPECT_THAT(ExecLauncher().Adopt(Shell("")).status(), FailsWith(absl::StatusCode::kNotFound, "p-1"));
}

TEST_F(ExecLauncherTest, J2_WhatCannotBeReadIsNotTakenForNeverLaunched) {
  std::filesystem::create_symlink("process", directory_ / "process");  // to itself
  EXPECT_THAT(ExecLauncher().Adopt(Shell("")).status(), FailsWith(absl::StatusCode::kFailedPrecondition, "process"));
}

// Where the manager is killed between the fork and the note of it, there is no process that nobody knows of.
TEST_F(ExecLauncherTest, J1_AProgramNeverBeginsWhereTheManagerDiesBeforeItIsWrittenDown) {
  const std::string trace = directory_ / "began";
  pid_t pid = 0;
  {
    const auto child = manager::HeldChild::Fork({"/bin/touch", {"touch", trace}, {}, STDERR_FILENO});
    ASSERT_OK(child);
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_NE(::access(trace.c_str(), F_OK), 0);
}

TEST(ProcessLogTest, J2_ALogThatHasGrownBeginsAnewAndItsEndIsKept) {
  const TempDir directory;
  const std::string path = directory / "log";
  const auto log = manager::OpenProcessLog(path);
  ASSERT_OK(log);
  const std::string line(1023, 'x');
  for (int i = 0; i <= 1024; ++i) ASSERT_EQ(::dprintf(log->get(), "%s\n", line.c_str()), 1024);
  ASSERT_GT(::dprintf(log->get(), "the last one\n"), 0);
  manager::TrimProcessLog(path);
  EXPECT_EQ(Read(path), "");
  EXPECT_THAT(manager::LastWords(path), HasSubstr("the last one"));
  ASSERT_GT(::dprintf(log->get(), "a new one\n"), 0);
  EXPECT_EQ(manager::LastWords(path), "a new one");
}

TEST(ProcessLogTest, J2_LastWordsAreFewAndEscaped) {
  EXPECT_EQ(manager::LastWordsOf(""), "");
  EXPECT_EQ(manager::LastWordsOf("\n\n"), "");
  EXPECT_EQ(manager::LastWordsOf("1\n2\n3\n4\n5\n6\n7\r\n\n"), "3 | 4 | 5 | 6 | 7");
  EXPECT_THAT(manager::LastWordsOf("a\x1b[31mred"), Not(HasSubstr("\x1b")));
  EXPECT_LE(manager::LastWordsOf(std::string(10'000, 'y')).size(), 900U);
}

}  // namespace
}  // namespace mooring::testing
