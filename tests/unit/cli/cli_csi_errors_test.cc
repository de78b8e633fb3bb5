// Errors of `mooring csi`: refusals, timeouts, dead sockets and wrong command lines. No error shows a secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/file/unique_fd.h"
#include "cli/run.h"
#include "csi.pb.h"
#include "tests/unit/cli/fake_server.h"
#include "tests/unit/cli/run_mooring.h"

namespace mooring::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CsiErrorsTest : public ::testing::Test {
 protected:
  CsiErrorsTest() { ::unsetenv("CSI_ENDPOINT"); }

  Result Csi(const std::string& line) { return RunLine("mooring csi --endpoint " + driver_.endpoint() + " " + line); }

  FakeServer driver_;
};

TEST_F(CsiErrorsTest, ErrorIsTextAndJson) {
  driver_.script().Fail<csi::v1::NodePublishVolumeResponse>(grpc::StatusCode::FAILED_PRECONDITION, "in \x1b[1m use");
  const Result result = Csi("publish v --target-path /t");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "mooring: NodePublishVolume: FAILED_PRECONDITION (9): in \\x1b[1m use\n");

  const Result json = Csi("publish v --target-path /t --json");
  EXPECT_EQ(json.status, kExitFailed);
  EXPECT_EQ(json.err, result.err);
  const auto object = ParseJsonLine(json.out).fields();
  EXPECT_EQ(object.at("rpc").string_value(), "NodePublishVolume");
  EXPECT_EQ(object.at("code").number_value(), 9);
  EXPECT_EQ(object.at("code_name").string_value(), "FAILED_PRECONDITION");
  EXPECT_EQ(object.at("message").string_value(), "in \x1b[1m use");
}

struct Refusal {
  grpc::StatusCode code;
  const char* message;
  const char* printed;
};

TEST_F(CsiErrorsTest, RefusalIsNoUsageError) {
  for (const Refusal& refusal : std::vector<Refusal>{
           {grpc::StatusCode::UNIMPLEMENTED, "", "UNIMPLEMENTED (12): the driver does not serve this call"},
           {grpc::StatusCode::INTERNAL, "", "INTERNAL (13): the driver gave no message"},
           {grpc::StatusCode::INVALID_ARGUMENT, "no volume_id", "INVALID_ARGUMENT (3): no volume_id"},
           {grpc::StatusCode::UNAVAILABLE, "later", "UNAVAILABLE (14): later"},
           {grpc::StatusCode::DEADLINE_EXCEEDED, "it is slow", "DEADLINE_EXCEEDED (4): it is slow"}}) {
    driver_.script().Fail<csi::v1::DeleteVolumeResponse>(refusal.code, refusal.message);
    const Result result = Csi("delete v");
    EXPECT_EQ(result.status, kExitFailed);
    EXPECT_EQ(result.err, std::string("mooring: DeleteVolume: ") + refusal.printed + "\n");
  }
}

TEST_F(CsiErrorsTest, SlowDriverTimesOut) {
  driver_.script().SetDelay(std::chrono::milliseconds(1000));
  const Result result = Csi("delete v --timeout 0.2");
  EXPECT_EQ(result.status, kExitFailed);
  EXPECT_EQ(result.err,
            "mooring: DeleteVolume: DEADLINE_EXCEEDED (4): no answer within 0.2 s; --timeout allows more\n");
}

TEST_F(CsiErrorsTest, ProbeTimeoutNamesTheFlag) {
  driver_.script().SetDelay(std::chrono::milliseconds(1000));
  EXPECT_THAT(Csi("probe --wait 0.2").err, HasSubstr("no answer within 0.2 s; --wait allows more\n"));
  const Result impatient = Csi("probe --wait 0.4 --timeout 0.3");
  EXPECT_THAT(impatient.err, HasSubstr("no answer within 0.4 s; --wait allows more\n")) << "the last of two calls";
}

// A bound socket. The test decides what happens to its clients.
UniqueFd BoundSocket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TEST_F(CsiErrorsTest, SocketProblemsHaveTheirOwnErrors) {
  const std::string directory = driver_.directory();
  EXPECT_THAT(RunLine("mooring csi info --endpoint " + directory + "/none").err,
              StartsWith("mooring: GetPluginInfo: UNAVAILABLE (14): there is no socket at '" + directory +
                         "/none': start the driver"));
  std::ofstream(directory + "/file") << "";
  EXPECT_THAT(RunLine("mooring csi info --endpoint " + directory + "/file").err, HasSubstr("is not a socket"));

  const UniqueFd dead_socket = BoundSocket(directory + "/dead");
  const Result dead = RunLine("mooring csi info --json --endpoint " + directory + "/dead");
  EXPECT_EQ(dead.status, kExitFailed);
  EXPECT_THAT(dead.err, HasSubstr("no process serves the socket"));
  EXPECT_EQ(ParseJsonLine(dead.out).fields().at("code").number_value(), 14);
}

TEST_F(CsiErrorsTest, SilentDriverTimesOut) {
  const std::string path = driver_.directory() + "/hung";
  const UniqueFd fd = BoundSocket(path);
  ASSERT_EQ(::listen(fd.get(), 16), 0);
  EXPECT_THAT(RunLine("mooring csi info --timeout 0.3 --endpoint " + path).err,
              HasSubstr("DEADLINE_EXCEEDED (4): no answer within 0.3 s"));
  EXPECT_EQ(RunLine("mooring csi probe --liveness --timeout 0.3 --endpoint " + path).status, kExitFailed);
}

TEST_F(CsiErrorsTest, OtherServerIsAnError) {
  const std::string path = driver_.directory() + "/other";
  const UniqueFd fd = BoundSocket(path);
  ASSERT_EQ(::listen(fd.get(), 16), 0);
  std::thread hangs_up([&fd] {
    for (;;) {
      const UniqueFd peer(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer.ok()) return;
      constexpr std::string_view kHttp = "HTTP/1.1 400 Bad Request\r\n\r\n";
      (void)::send(peer.get(), kHttp.data(), kHttp.size(), MSG_NOSIGNAL);
    }
  });
  EXPECT_THAT(RunLine("mooring csi info --endpoint " + path).err, HasSubstr("check that it is a CSI driver's socket"));
  EXPECT_EQ(RunLine("mooring csi probe --liveness --endpoint " + path).status, kExitFailed);
  ::shutdown(fd.get(), SHUT_RDWR);
  hangs_up.join();
}

TEST_F(CsiErrorsTest, SocketPathIsEncoded) {
  std::filesystem::create_directory(driver_.directory() + "/a b%41?#");
  const std::string odd = driver_.directory() + "/a b%41?#/c.sock";
  std::filesystem::create_symlink(driver_.socket(), odd);
  EXPECT_EQ(RunLine("mooring csi probe --endpoint '" + odd + "'").out, "ready\n");
}

TEST_F(CsiErrorsTest, EndpointFromTheEnvironment) {
  ::setenv("CSI_ENDPOINT", driver_.endpoint().c_str(), 1);
  EXPECT_EQ(RunLine("mooring csi probe").out, "ready\n");
  EXPECT_EQ(RunLine("mooring csi probe --endpoint /none").status, kExitFailed) << "the flag comes first";
  ::unsetenv("CSI_ENDPOINT");
}

TEST_F(CsiErrorsTest, SecretsFileOfTheEnvironment) {
  ::setenv("MOORING_SECRETS_FILE", "/nowhere/secrets", 1);
  EXPECT_EQ(Csi("list").status, kExitOk);
  EXPECT_EQ(Csi("probe").status, kExitOk);
  const Result result = Csi("delete v");
  EXPECT_EQ(result.status, kExitUsage);
  EXPECT_THAT(result.err, HasSubstr("/nowhere/secrets"));
  ::unsetenv("MOORING_SECRETS_FILE");
}

TEST_F(CsiErrorsTest, EmptyVariableIsIgnored) {
  ::setenv("MOORING_SECRETS_FILE", "", 1);
  EXPECT_EQ(Csi("delete v").status, kExitOk);
  ::unsetenv("MOORING_SECRETS_FILE");
}

TEST_F(CsiErrorsTest, LocalPathsNeedNotBeUtf8) {
  const std::string odd = driver_.directory() + "/\xff";
  std::filesystem::create_symlink(driver_.socket(), odd);
  std::ofstream(odd + ".secrets") << "a=b\n";
  EXPECT_EQ(RunLine("mooring csi --endpoint " + odd + " delete v --secrets-file " + odd + ".secrets").status, kExitOk);
}

TEST_F(CsiErrorsTest, TimeAndRequestsAreTracedToStderr) {
  const Result result =
      Csi("-v stage v --staging-path /s --time --json --mount-flag a=hunter22 --secret password=hunter22");
  EXPECT_EQ(result.out, "{}\n");
  EXPECT_THAT(result.err, StartsWith("mooring: NodeStageVolume {\"volume_id\":\"v\""));
  EXPECT_THAT(result.err, ::testing::ContainsRegex("\nmooring: NodeStageVolume took [0-9]+\\.[0-9]{3} ms\n"));
  EXPECT_THAT(result.err, HasSubstr("\"password\":\"***\""));
  EXPECT_THAT(result.err, Not(HasSubstr("hunter22")));
}

TEST_F(CsiErrorsTest, NoErrorShowsASecret) {
  driver_.script().Fail<csi::v1::DeleteVolumeResponse>(grpc::StatusCode::INTERNAL, "login with hunter22 failed");
  const std::vector<std::string> lines = {
      "delete v --secret password=hunter22",
      "delete v --secret password=hunter22 --json",
      "delete v --secret hunter22",
      "delete v --secret =hunter22",
      "delete v --secret a=1 --secret a=hunter22",
      "delete v --secret a=1 b=hunter22",
      "delete v --secrets password=hunter22",
      "delete v --secrets=password=hunter22",
      "--secret password=hunter22 delete v",
      "--secret=password=hunter22 delete",
      "list --secret password=hunter22",
  };
  for (const std::string& line : lines) {
    const Result result = Csi(line);
    EXPECT_NE(result.status, kExitOk);
    EXPECT_NE(result.err, "");
    EXPECT_THAT(result.err + result.out, Not(HasSubstr("hunter22")));
  }
}

TEST_F(CsiErrorsTest, WrongCommandLineSendsNothing) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"delete", "ID is required\nTry 'mooring csi delete --help'."},
      {"stage v", "--staging-path is required\nTry 'mooring csi stage --help'."},
      {"nonsense", "there is no command 'nonsense'\nTry 'mooring csi --help'."},
      {"snapshot nonsense", "there is no command 'nonsense'\nTry 'mooring csi snapshot --help'."},
      {"snapshot", "a command is missing\nTry 'mooring csi snapshot --help'."},
      {"delete v w", "'w' is an argument too many\n"},
      {"delete v --nonsense=1", "there is no flag '--nonsense'\n"},
      {"create v --size 1gb", "--size: '1gb' is not a whole number and a unit"},
      {"create v --access rwo", "the access mode 'rwo' is none of single-node-writer, single-node-reader-only, multi-"},
      {"create v --access UNKNOWN", "the access mode 'UNKNOWN' is none of single-node-writer"},
      {"create v --block --fs-type xfs --json", "--block is a raw device: leave out --fs-type, --mount-flag and"},
      {"create v --from-volume a --from-snapshot b", "--from-snapshot and --from-volume exclude each other"},
      {"create v --param x", "--param: there is no '='"},
      {"create v --secrets-file /nowhere", "the secrets file '/nowhere': open: No such file"},
      {"stage v --staging-path /s --access single-node-writer --access single-node-writer",
       "this command takes one mode"},
      {"list --max-entries 0", "--max-entries: '0' is not a whole number above 0"},
      {"list --max-entries 2147483648", "is not a whole number above 0"},
      {"probe --wait soon", "--wait: 'soon' is not a number of seconds"},
      {"probe --timeout -1", "is not a number of seconds"},
      {"create v --from-snapshot ''", "--from-snapshot: the value is empty"},
      {"controller-unpublish v --node ''", "--node: the value is empty"},
      {"delete ''", "ID: the value is empty"},
      {"snapshot list --volume ''", "--volume: the value is empty"},
      {"group-snapshot create g --volume v --volume ''", "--volume: the value is empty"},
      {"get \xff", "ID: '\\xff' is not UTF-8"},
      {"unpublish v --target-path /t\xc3", "--target-path: '/t\\xc3' is not UTF-8"},
      {"create v --mount-flag \xff", "--mount-flag: '\\xff' is not UTF-8"},
      {"create v --param a=\xff", "--param: the text is not UTF-8"},
      {"create v --topology a=1,b=\xff", "--topology: the text is not UTF-8"},
      {"delete v --secret a=\xff", "--secret: the text is not UTF-8"},
      {"delete \x1b[2J \x1b[2J", "'\\x1b[2J' is an argument too many"},
  };
  for (const auto& [line, message] : lines) {
    const Result result = Csi(line);
    EXPECT_EQ(result.status, kExitUsage) << message;
    EXPECT_THAT(result.err, AllOf(StartsWith("mooring: "), HasSubstr(message), HasSubstr("\nTry 'mooring csi")));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(driver_.script().RequestCount(), 0u);
}

TEST_F(CsiErrorsTest, NoEndpointIsAUsageError) {
  const Result result = RunLine("mooring csi info");
  EXPECT_EQ(result.status, kExitUsage);
  EXPECT_THAT(result.err, HasSubstr("set CSI_ENDPOINT"));
  EXPECT_EQ(RunLine("mooring csi info --endpoint tcp://localhost:1").status, kExitUsage);
}

TEST(MooringTest, HelpAndVersionAreAnswers) {
  const Result version = RunLine("mooring --version");
  EXPECT_EQ(version.status, kExitOk);
  EXPECT_THAT(version.out, StartsWith("mooring 0."));
  for (const std::string line : {"--help", "csi --help", "csi stage --help", "csi snapshot create -h"}) {
    const Result help = RunLine("mooring " + line);
    EXPECT_EQ(help.status, kExitOk);
    EXPECT_THAT(help.out, HasSubstr("Usage: mooring"));
    EXPECT_EQ(help.err, "");
  }
  EXPECT_EQ(RunLine("mooring").status, kExitUsage);
}

TEST(MooringTest, UnwritableAnswerIsAnError) {
  const char* argv[] = {"mooring", "--version"};
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(cli::Run(2, argv, out, err), kExitFailed);
  EXPECT_THAT(err.str(), HasSubstr("cannot write the answer"));
}

}  // namespace
}  // namespace mooring::cli
