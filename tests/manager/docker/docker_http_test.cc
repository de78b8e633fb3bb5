#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/deadline.h"
#include "base/file/unique_fd.h"
#include "manager/docker/http_server.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

class DockerHttpTest : public ::testing::Test {
 protected:
  std::string socket() const { return directory_ / "plugins/mooring.sock"; }

  absl::StatusOr<std::unique_ptr<DockerHttpServer>> Start(DockerHttpServer::Handler handler) {
    return DockerHttpServer::Start(std::move(handler), socket());
  }

  static std::string Echo(const std::string& method, const std::string& body, const DockerCall&) {
    return method + " " + body;
  }

  // A POST like those of Docker, without a useful content type.
  httplib::Result Post(const std::string& method, const std::string& body = "{}") {
    httplib::Client client(socket());
    client.set_address_family(AF_UNIX);
    return client.Post(method, body, "");
  }

  TempDir directory_;
};

TEST_F(DockerHttpTest, PassesRequestsToHandler) {
  const auto server = Start(Echo);
  ASSERT_OK(server);
  const auto answer = Post("/VolumeDriver.Mount", R"({"Name":"db","ID":"1"})");
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, R"(/VolumeDriver.Mount {"Name":"db","ID":"1"})");
  EXPECT_EQ(answer->get_header_value("Content-Type"), "application/vnd.docker.plugins.v1.2+json");
}

TEST_F(DockerHttpTest, NamesTheCaller) {
  const auto server = Start([](const std::string&, const std::string&, const DockerCall& call) { return call.caller; });
  ASSERT_OK(server);
  const auto answer = Post("/VolumeDriver.Mount");
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->body, StartsWith(std::to_string(::getpid()) + " "));
  EXPECT_EQ(Post("/VolumeDriver.Mount")->body, answer->body);
}

TEST_F(DockerHttpTest, ExceptionIsAnError) {
  const auto server = Start([](const std::string&, const std::string&, const DockerCall&) -> std::string {
    throw std::runtime_error("disk image is malformed");
  });
  ASSERT_OK(server);
  const auto answer = Post("/VolumeDriver.Mount");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, R"({"Err":"unexpected: disk image is malformed"})");
  EXPECT_OK((*server)->Stop(Clock::now() + seconds(5)));
}

TEST_F(DockerHttpTest, SetsDeadlineScope) {
  const auto server = Start([](const std::string&, const std::string&, const DockerCall& call) -> std::string {
    return DeadlineScope::Now() == call.until ? "it knows" : "it does not know";
  });
  ASSERT_OK(server);
  const auto answer = Post("/VolumeDriver.Mount");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "it knows");
}

TEST_F(DockerHttpTest, UnknownMethodIsNotFound) {
  const auto server = Start(Echo);
  ASSERT_OK(server);
  const auto answer = Post("/NetworkDriver.GetCapabilities");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 404);
}

TEST_F(DockerHttpTest, RefusesALongBodyAndOneWithoutLength) {
  const auto server = Start(Echo);
  ASSERT_OK(server);
  const std::string body(100'000, 'x');
  for (const bool tells_length : {true, false}) {
    for (const char* method : {"/VolumeDriver.Create", "/unknown"}) {
      httplib::Client client(socket());
      client.set_address_family(AF_UNIX);
      const auto answer = tells_length ? client.Post(method, body, "application/json")
                                       : client.Post(
                                             method,
                                             [&](std::size_t, httplib::DataSink& sink) {
                                               sink.write(body.data(), body.size());
                                               sink.done();
                                               return true;
                                             },
                                             "application/json");
      ASSERT_TRUE(answer) << to_string(answer.error());
      EXPECT_EQ(answer->status, tells_length ? 413 : 411);
      EXPECT_THAT(nlohmann::json::parse(answer->body)["Err"].get<std::string>(),
                  ::testing::HasSubstr(tells_length ? "65536 bytes" : "length of its body"));
    }
  }
  EXPECT_EQ(Post("/VolumeDriver.Create", std::string(60'000, ' '))->status, 200);
}

UniqueFd ConnectAndSend(const std::string& socket, const std::string& said) {
  UniqueFd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::send(connection.get(), said.data(), said.size(), MSG_NOSIGNAL), static_cast<ssize_t>(said.size()));
  return connection;
}

// Returns all that the server answers until it closes the connection.
std::string Conversation(const std::string& socket, const std::string& said) {
  const UniqueFd connection = ConnectAndSend(socket, said);
  ::shutdown(connection.get(), SHUT_WR);
  std::string answer;
  std::array<char, 4096> buffer = {};
  for (ssize_t got = 0; (got = ::recv(connection.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    answer.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

TEST_F(DockerHttpTest, BodyOfRefusedRequestIsNoRequest) {
  std::atomic<int> calls = 0;
  const auto server = Start([&](const std::string&, const std::string&, const DockerCall&) {
    ++calls;
    return std::string("{}");
  });
  ASSERT_OK(server);
  const std::string inner = "POST /Plugin.Activate HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\n\r\n{}";
  for (const char* line : {"POST /unknown", "GET /Plugin.Activate", "HEAD /", "OPTIONS /", "DELETE /x", "PUT /x"}) {
    const std::string answer = Conversation(
        socket(), fmt::format("{} HTTP/1.1\r\nHost: d\r\nContent-Length: {}\r\n\r\n{}", line, inner.size(), inner));
    EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 404")) << line;
    EXPECT_THAT(answer, ::testing::Not(::testing::HasSubstr("200"))) << line;
    EXPECT_EQ(calls, 0) << line;
  }
  EXPECT_THAT(Conversation(socket(), inner + inner), ::testing::HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_EQ(calls, 1) << "a connection serves one request";
}

TEST_F(DockerHttpTest, SlowClientsLeaveRoomForOthers) {
  const auto server = Start(Echo);
  ASSERT_OK(server);
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 200; ++i) slow.push_back(ConnectAndSend(socket(), "POST /Volume"));
  const Clock::time_point began = Clock::now();
  EXPECT_TRUE(Post("/VolumeDriver.List"));
  EXPECT_LT(Clock::now() - began, seconds(5));
  for (int i = 0; i < 300; ++i) slow.push_back(ConnectAndSend(socket(), "POST /Volume"));
  EXPECT_TRUE(Post("/VolumeDriver.List")) << "with more clients than it keeps";
}

TEST_F(DockerHttpTest, ReplacesStaleSocketOnly) {
  {
    const auto server = Start(Echo);
    ASSERT_OK(server);
    EXPECT_THAT(Start(Echo), FailsWith(Code::kFailedPrecondition, "served by another"));
  }
  EXPECT_TRUE(std::ifstream(socket()).fail());  // a socket without a server
  const auto server = Start(Echo);
  ASSERT_OK(server);
  EXPECT_TRUE(Post("/VolumeDriver.List"));
}

TEST_F(DockerHttpTest, HangingCallsLeaveRoomForOthers) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> hanging = 0;
  const auto server = Start([&](const std::string& method, const std::string&, const DockerCall&) {
    if (method != "/VolumeDriver.Mount") return std::string("{}");
    ++hanging;
    released.wait();
    return std::string("{}");
  });
  ASSERT_OK(server);
  std::vector<std::thread> mounts;
  for (int i = 0; i < 20; ++i) mounts.emplace_back([&] { EXPECT_TRUE(Post("/VolumeDriver.Mount")); });
  const auto patience = Clock::now() + seconds(20);
  while (hanging < 20 && Clock::now() < patience) std::this_thread::yield();
  EXPECT_EQ(hanging, 20);
  EXPECT_TRUE(Post("/VolumeDriver.List"));
  release.set_value();
  for (std::thread& mount : mounts) mount.join();
}

TEST_F(DockerHttpTest, StopWaitsForCallsUntilDeadline) {
  std::promise<void> reached, release;
  const auto server = Start([&](const std::string&, const std::string&, const DockerCall&) {
    reached.set_value();
    release.get_future().wait();
    return std::string("late");
  });
  ASSERT_OK(server);
  auto answer = std::async(std::launch::async, [&] { return Post("/VolumeDriver.Mount"); });
  reached.get_future().wait();
  EXPECT_THAT((*server)->Stop(Clock::now() + milliseconds(10)), FailsWith(Code::kDeadlineExceeded, "still run"));
  EXPECT_FALSE(Post("/VolumeDriver.List"));
  release.set_value();
  EXPECT_OK((*server)->Stop(Clock::now() + seconds(20)));
  const auto late = answer.get();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->body, "late");
}

TEST_F(DockerHttpTest, CallKnowsThatItsClientHasGone) {
  std::promise<void> ended_its_side, has_gone;
  std::atomic<int> calls = 0;
  const auto server = Start([&](const std::string&, const std::string&, const DockerCall& call) {
    const bool goes = ++calls == 2;
    (goes ? has_gone : ended_its_side).get_future().wait();
    EXPECT_EQ(call.is_abandoned(), goes);
    return std::string("{}");
  });
  ASSERT_OK(server);
  const std::string request = "POST /VolumeDriver.Mount HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
  UniqueFd stays = ConnectAndSend(socket(), request);
  ::shutdown(stays.get(), SHUT_WR);
  while (calls < 1) std::this_thread::yield();
  UniqueFd goes = ConnectAndSend(socket(), request);
  while (calls < 2) std::this_thread::yield();
  goes.reset();
  ended_its_side.set_value();
  has_gone.set_value();
  EXPECT_OK((*server)->Stop(Clock::now() + seconds(20)));
}

TEST_F(DockerHttpTest, CallEndsBeforeDockersTimeout) {
  Clock::time_point until;
  const auto server = Start([&](const std::string&, const std::string&, const DockerCall& call) {
    until = call.until;
    return std::string("{}");
  });
  ASSERT_OK(server);
  ASSERT_TRUE(Post("/VolumeDriver.Mount"));
  EXPECT_GT(until, Clock::now() + seconds(60));
  EXPECT_LT(until, Clock::now() + std::chrono::minutes(2));
  ASSERT_TRUE(Post("/VolumeDriver.Remove"));
  EXPECT_GT(until, Clock::now() + seconds(30));
  EXPECT_LT(until, Clock::now() + std::chrono::minutes(1));
}

}  // namespace
}  // namespace mooring::manager
