#include "manager/launch/exec_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "base/file/unique_fd.h"
#include "manager/launch/plugin_process.h"
#include "manager/launch/process_log.h"
#include "tests/manager/prelude.h"

namespace mooring::testing {
namespace {

using manager::Clock;
using manager::ExecLauncher;
using manager::Launched;
using manager::LaunchSpec;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ExecLauncherTest : public ::testing::Test {
 protected:
  ~ExecLauncherTest() override {
    for (const auto& process : started_) (void)process->End(Clock::now(), {});
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

  // The FIFO to which a script writes a pid.
  std::string Ready() {
    const std::string path = directory_ / "ready";
    ::mkfifo(path.c_str(), 0600);
    return path;
  }
  // A script that serves the socket, then writes its pid.
  std::string Serving() {
    return "python3 -c 'import os, socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"" +
           (directory_ / "csi.sock") + "\")\ns.listen()\nopen(\"" + Ready() +
           "\", \"w\").write(str(os.getpid()))\ntime.sleep(1000)'";
  }
  // Opens the process that has written its pid.
  std::unique_ptr<Launched> Child() {
    const auto identity = manager::IdentityOf(std::stoi(Read(Ready())));
    EXPECT_OK(identity);
    auto child = manager::PluginProcess::Open(*identity, "/nonexistent");
    EXPECT_OK(child);
    return *std::move(child);
  }

  static bool WaitForEnd(Launched& process) {
    pollfd waited = {process.ExitFd(), POLLIN, 0};
    return ::poll(&waited, 1, 20'000) == 1 && !process.IsAlive();
  }

  // The output of the script, after it has ended.
  std::string Output(const std::string& script) {
    Launched& process = Launch(Shell(script));
    EXPECT_TRUE(WaitForEnd(process));
    return Read(directory_ / "log");
  }

  TempDir directory_;
  std::vector<std::unique_ptr<Launched>> started_;
};

TEST_F(ExecLauncherTest, PassesOnlyTheDocumentedEnvironment) {
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

TEST_F(ExecLauncherTest, PassesNoDescriptorAndNoSignalSetting) {
  std::signal(SIGUSR1, SIG_IGN);
  const std::string output = Output("ls -l /proc/self/fd | wc -l; grep SigIgn /proc/self/status");
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_THAT(output, HasSubstr("5\n"));  // 0, 1, 2, the directory itself, and the line above them
  EXPECT_THAT(output, HasSubstr("SigIgn:\t0000000000000000"));
}

TEST_F(ExecLauncherTest, RefusesAMissingProgram) {
  LaunchSpec spec = Shell("");
  const auto invalid = Code::kInvalidArgument;
  for (const char* name : {"no-such-program", "./relative", "/no/such/program"}) {
    spec.run.command = {name};
    EXPECT_THAT(ExecLauncher().Launch(spec, Soon()).status(), FailsWith(invalid, name));
  }
}

TEST_F(ExecLauncherTest, RefusesAFileThatIsNotAProgram) {
  const std::string path = directory_ / "garbage";
  std::ofstream(path) << "neither ELF nor script";
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  LaunchSpec spec = Shell("");
  spec.run.command = {path};
  EXPECT_THAT(ExecLauncher().Launch(spec, Soon()).status(), FailsWith(Code::kInternal, "Exec format error"));
}

TEST_F(ExecLauncherTest, DescribesHowItEndedAndItsLastOutput) {
  Launched& process = Launch(Shell("echo starting; echo 'cannot open /dev/x' >&2; exit 3"));
  ASSERT_TRUE(WaitForEnd(process));
  EXPECT_THAT(process.Describe(), HasSubstr("ended: exit status 3; its last output: starting | cannot open /dev/x"));
}

TEST_F(ExecLauncherTest, DescribesTheSignalThatEndedIt) {
  Launched& process = Launch(Shell("kill -9 $$"));
  ASSERT_TRUE(WaitForEnd(process));
  EXPECT_THAT(process.Describe(), HasSubstr("ended: killed by signal 9 (Killed)"));
}

TEST_F(ExecLauncherTest, EndSendsSigtermFirst) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  Launched& process = Launch(
      Shell("trap 'echo bye; exit 0' TERM; echo > '" + (directory_ / "ready") + "'; while :; do sleep 0.05; done"));
  Read(directory_ / "ready");
  EXPECT_OK(process.End(Soon(), {}));
  EXPECT_FALSE(process.IsAlive());
  EXPECT_THAT(process.Describe(), AllOf(HasSubstr("ended: exit status 0; its last output: "), HasSubstr("bye")));
  EXPECT_OK(process.End(Soon(), {}));  // gone already
}

TEST_F(ExecLauncherTest, EndKillsAtTheDeadline) {
  Launched& process = Launch(Shell("trap '' TERM; echo > '" + Ready() + "'; while :; do sleep 0.05; done"));
  Read(Ready());
  EXPECT_OK(process.End(Clock::now() + milliseconds(50), {}));
  EXPECT_FALSE(process.IsAlive());
  EXPECT_THAT(process.Describe(), HasSubstr("signal 9"));
}

TEST_F(ExecLauncherTest, EndCanBeCancelledAndRepeated) {
  ASSERT_EQ(::mkfifo((directory_ / "ready").c_str(), 0600), 0);
  Launched& process =
      Launch(Shell("trap 'echo > \"" + Ready() + "\"' TERM; echo > '" + Ready() + "'; while :; do sleep 0.05; done"));
  Read(Ready());
  const auto start = Clock::now();
  std::stop_source stop;
  auto ended =
      std::async(std::launch::async, [&] { return process.End(Clock::now() + seconds(60), stop.get_token()); });
  Read(Ready());  // it was sent SIGTERM
  stop.request_stop();
  EXPECT_THAT(ended.get(), FailsWith(Code::kCancelled, "was cancelled"));
  EXPECT_TRUE(process.IsAlive());

  EXPECT_OK(process.End(Clock::now(), {}));
  EXPECT_THAT(process.Describe(), HasSubstr("signal 9"));
  EXPECT_LT(Clock::now() - start, seconds(30));
}

TEST_F(ExecLauncherTest, EndsAPluginThatAScriptStarted) {
  Launched& process = Launch(Shell(Serving() + " & wait"));
  const auto plugin = Child();
  EXPECT_OK(process.End(Soon(), {}));
  EXPECT_FALSE(plugin->IsAlive());
}

TEST_F(ExecLauncherTest, KillsAPluginThatAScriptStarted) {
  Launched& process = Launch(Shell("trap '' TERM; " + Serving() + " & wait; sleep 1000"));
  const auto plugin = Child();
  EXPECT_OK(process.End(Clock::now() + milliseconds(50), {}));
  EXPECT_FALSE(plugin->IsAlive());
}

// Such a child is in the plugin's process group, and may serve a mount, as a FUSE daemon does. A child with a pending
// signal would not answer.
TEST_F(ExecLauncherTest, LeavesOtherChildrenOfThePluginRunning) {
  const std::string question = directory_ / "question", answer = directory_ / "answer";
  ASSERT_EQ(::mkfifo(question.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(answer.c_str(), 0600), 0);
  for (const char* trap : {"", "trap '' TERM; "}) {
    const UniqueFd ask(::open(question.c_str(), O_RDWR | O_CLOEXEC));  // closing it ends the daemon
    const UniqueFd hear(::open(answer.c_str(), O_RDWR | O_CLOEXEC));
    Launched& process = Launch(
        Shell(trap + ("cat '" + question + "' > '" + answer + "' & echo > '" + Ready()) + "'; wait; sleep 1000"));
    Read(Ready());
    EXPECT_OK(process.End(Clock::now() + milliseconds(50), {}));
    EXPECT_FALSE(process.IsAlive());
    ASSERT_EQ(::write(ask.get(), "?", 1), 1);
    pollfd heard = {hear.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&heard, 1, 10'000), 1) << "after '" << trap << "'";
    char byte = 0;
    EXPECT_EQ(heard.revents & POLLIN ? ::read(hear.get(), &byte, 1) : 1, 1);
  }
}

TEST_F(ExecLauncherTest, EndsThePluginOfAScriptThatDied) {
  Launched& process = Launch(Shell("trap '' TERM; " + Serving() + " & exit 3"));
  const auto plugin = Child();
  EXPECT_TRUE(WaitForEnd(process));
  EXPECT_THAT(process.Describe(), HasSubstr("exit status 3"));
  EXPECT_OK(process.End(Soon(), {}));
  EXPECT_TRUE(WaitForEnd(*plugin));
}

// SO_PEERCRED gives the process that called listen(2). It may have closed the socket, and its pid may be reused.
TEST_F(ExecLauncherTest, SparesAProcessWithoutTheSocketOpen) {
  const std::string question = directory_ / "question", answer = directory_ / "answer", end = directory_ / "end";
  for (const std::string& fifo : {question, answer, end}) ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd ask(::open(question.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd hear(::open(answer.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd ends(::open(end.c_str(), O_RDWR | O_CLOEXEC));  // closing it ends the process that has the socket
  const std::string listens = "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"" +
                              (directory_ / "csi.sock") + "\")\ns.listen()\n";
  // Opened first, because without a writer a later open would wait for ever.
  const std::string hands_on =
      "end = open(\"" + end + "\")\nif os.fork() == 0:\n  end.read()\n  os._exit(0)\ns.close()\n";
  const std::string answers = "open(\"" + Ready() + "\", \"w\").write(\"x\")\nopen(\"" + question +
                              "\", \"rb\", 0).read(1)\nopen(\"" + answer + "\", \"wb\", 0).write(b\"!\")";
  Launched& process = Launch(Shell("python3 -c '" + listens + hands_on + answers + "' & exit 3"));
  Read(Ready());
  EXPECT_TRUE(WaitForEnd(process));
  EXPECT_OK(process.End(Soon(), {}));
  ASSERT_EQ(::write(ask.get(), "?", 1), 1);
  pollfd heard = {hear.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&heard, 1, 10'000), 1) << "it was killed";
}

// Launches from a separate process, which stands for a manager that is killed right after.
TEST_F(ExecLauncherTest, AdoptsAProcessOfAnEarlierManager) {
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
  EXPECT_OK((*adopted)->End(Soon(), {}));
  EXPECT_FALSE((*adopted)->IsAlive());
  EXPECT_THAT(ExecLauncher().Adopt(spec).status(), FailsWith(Code::kNotFound, "process"));
}

TEST_F(ExecLauncherTest, DoesNotAdoptAReusedPid) {
  const LaunchSpec spec = Shell("exec sleep 1000");
  Launch(spec);
  std::istringstream before(Read(directory_ / "process"));
  std::string pid;
  std::string start_time;
  std::string boot;
  before >> pid >> start_time >> boot;
  std::ofstream(directory_ / "process") << pid << ' ' << start_time << "1 " << boot << '\n';
  EXPECT_THAT(ExecLauncher().Adopt(spec).status(), FailsWith(Code::kNotFound, "another process may have its pid"));
  std::ofstream(directory_ / "process") << pid << ' ' << start_time << ' ' << "another-boot\n";
  EXPECT_THAT(ExecLauncher().Adopt(spec).status(), FailsWith(Code::kNotFound, "another process may have its pid"));
}

TEST_F(ExecLauncherTest, AdoptWithoutALaunchIsNotFound) {
  EXPECT_THAT(ExecLauncher().Adopt(Shell("")).status(), FailsWith(Code::kNotFound, "p-1"));
}

TEST_F(ExecLauncherTest, UnreadableRecordIsAnError) {
  fs::create_symlink("process", directory_ / "process");  // to itself
  EXPECT_THAT(ExecLauncher().Adopt(Shell("")).status(), FailsWith(Code::kFailedPrecondition, "process"));
}

// A manager that is killed between the fork and the record leaves no process.
TEST_F(ExecLauncherTest, ProgramNeverStartsWithoutItsRecord) {
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

TEST(ProcessLogTest, TrimKeepsTheOldLog) {
  const TempDir directory;
  const std::string path = directory / "log";
  const auto log = manager::OpenProcessLog(path);
  ASSERT_OK(log);
  const std::string line(1023, 'x');
  for (int i = 0; i <= 1024; ++i) ASSERT_EQ(::dprintf(log->get(), "%s\n", line.c_str()), 1024);
  ASSERT_GT(::dprintf(log->get(), "the last one\n"), 0);
  manager::TrimProcessLog(path);
  EXPECT_EQ(Read(path), "");
  EXPECT_THAT(manager::LastLines(path), HasSubstr("the last one"));
  ASSERT_GT(::dprintf(log->get(), "a new one\n"), 0);
  EXPECT_EQ(manager::LastLines(path), "a new one");
}

TEST(ProcessLogTest, LastLinesAreFewAndEscaped) {
  EXPECT_EQ(manager::LastLinesOf(""), "");
  EXPECT_EQ(manager::LastLinesOf("\n\n"), "");
  EXPECT_EQ(manager::LastLinesOf("1\n2\n3\n4\n5\n6\n7\r\n\n"), "3 | 4 | 5 | 6 | 7");
  EXPECT_THAT(manager::LastLinesOf("a\x1b[31mred"), Not(HasSubstr("\x1b")));
  EXPECT_LE(manager::LastLinesOf(std::string(10'000, 'y')).size(), 900U);
}

}  // namespace
}  // namespace mooring::testing
