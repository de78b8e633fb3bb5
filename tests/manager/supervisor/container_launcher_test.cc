#include "manager/launch/container_launcher.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "tests/manager/prelude.h"

namespace mooring::testing {
namespace {

using manager::Clock;
using manager::ContainerLauncher;
using manager::LaunchSpec;
using nlohmann::json;

// A container engine that records the calls, and answers as set by "METHOD path" without query and version.
class FakeEngine {
 public:
  explicit FakeEngine(std::string socket_path) : socket_path_(std::move(socket_path)) {
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      Handle(request, response);
    };
    server_.Get(".*", handle).Post(".*", handle).Delete(".*", handle);
    server_.set_address_family(AF_UNIX);
    server_.bind_to_port(socket_path_.c_str(), 80);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~FakeEngine() {
    while (!server_.is_running()) std::this_thread::yield();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      going_ = true;
      changed_.notify_all();
    }
    server_.stop();
    thread_.join();
  }

  void Answer(const std::string& call, int status, std::string body) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[call] = {status, std::move(body)};
  }

  // Such calls get no answer until the engine is destroyed.
  void Hang(const std::string& call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    hung_ = call;
  }
  bool WaitForCall(const std::string& call) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [&] {
      return std::any_of(calls_.begin(), calls_.end(), [&](const auto& noted) { return noted.starts_with(call); });
    });
  }

  std::vector<std::string> calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  json created() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return json::parse(created_);
  }

 private:
  struct Prepared {
    int status = 200;
    std::string body = "{}";
  };

  void Handle(const httplib::Request& request, httplib::Response& response) {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::string path = request.path.substr(request.path.find('/', 1));
    const std::string call = request.method + " " + path;
    std::string noted = call;
    for (const auto& [name, value] : request.params) noted += " " + name + "=" + value;
    calls_.push_back(noted);
    changed_.notify_all();
    changed_.wait(lock, [&] { return going_ || call != hung_; });
    if (path == "/containers/create") created_ = request.body;
    const Prepared answer = answers_.count(call) > 0 ? answers_[call] : Prepared();
    response.status = answer.status;
    response.set_content(answer.body, "application/json");
  }

  const std::string socket_path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string hung_;
  bool going_ = false;
  std::map<std::string, Prepared> answers_ = {{"GET /containers/json", {200, "[]"}}};
  std::vector<std::string> calls_;
  std::string created_;
  httplib::Server server_;
  std::thread thread_;
};

class ContainerLauncherTest : public ::testing::Test {
 protected:
  ContainerLauncherTest() {
    spec_.plugin = "db plugin";
    spec_.instance_id = "db%20plugin-0a1b2c3d";
    spec_.run.kind = manager::PluginRecord::Run::Kind::kContainer;
    spec_.run.image = "registry.example:5000/plugin:1";
    spec_.run.command = {"--verbose"};
    spec_.run.environment = {{"TOKEN", "s3cret"}};
    spec_.socket_directory = "/run/mooring/plugins/db%20plugin-0a1b2c3d";
    spec_.root = "/var/lib/mooring-manager/mounts";
  }

  // A container in the form of the engine's list.
  std::string Listed(const std::string& id, const std::string& manager, const std::string& plugin,
                     const std::string& instance, const std::string& runtime = "plugins") {
    const json labels = {{"mooring.manager", manager},
                         {"mooring.runtime", directory_ / runtime},
                         {"mooring.plugin", plugin},
                         {"mooring.instance", instance}};
    return json{{"Id", id}, {"State", "exited"}, {"Labels", labels}}.dump();
  }
  void SetState(const std::string& state) {
    engine_.Answer("GET " + kContainer + "/json", 200, R"({"State":)" + state + "}");
  }

  const std::string kName = "mooring-db_20plugin-0a1b2c3d";
  const std::string kContainer = "/containers/" + kName;
  TempDir directory_;
  FakeEngine engine_{directory_ / "engine.sock"};
  ContainerLauncher launcher_{directory_ / "engine.sock", {"0123abcd", "web1", directory_ / "plugins"}};
  LaunchSpec spec_;
};

TEST_F(ContainerLauncherTest, CreatesAPrivilegedContainerWithTheManagersBinds) {
  ASSERT_OK(launcher_.Launch(spec_, Soon()));
  EXPECT_THAT(engine_.calls(), ElementsAre(StartsWith("GET /containers/json"), HasSubstr("GET /images/"),
                                           "POST /containers/create name=" + kName, "POST " + kContainer + "/start"));
  const json created = engine_.created();
  EXPECT_EQ(created["Image"], spec_.run.image);
  EXPECT_EQ(created["Cmd"], json({"--verbose"}));
  EXPECT_EQ(created["HostConfig"]["Privileged"], true);
  EXPECT_THAT(created["Env"].get<std::vector<std::string>>(),
              ElementsAre("MOORING_MOUNT_ROOT=" + spec_.root, "TOKEN=s3cret",
                          "CSI_ENDPOINT=unix://" + spec_.socket_directory + "/csi.sock"));
  std::map<std::string, std::string> propagation;
  for (const json& mount : created["HostConfig"]["Mounts"]) {
    EXPECT_EQ(mount["Source"], mount["Target"]);
    propagation[mount["Source"]] = mount["BindOptions"]["Propagation"];
  }
  EXPECT_EQ(propagation, (std::map<std::string, std::string>{
                             {"/dev", "rprivate"}, {spec_.socket_directory, "rprivate"}, {spec_.root, "rshared"}}));
}

TEST_F(ContainerLauncherTest, AddsTheBindsOfTheRun) {
  spec_.run.binds = {{"/srv/state", "/state", false, Propagation::kPrivate}, {"/", "/host", true, Propagation::kSlave}};
  ASSERT_OK(launcher_.Launch(spec_, Soon()));
  const json mounts = engine_.created()["HostConfig"]["Mounts"];
  ASSERT_EQ(mounts.size(), 5U);
  EXPECT_EQ(mounts[3], json::parse(R"({"Type":"bind","Source":"/srv/state","Target":"/state","ReadOnly":false,
                                       "BindOptions":{"Propagation":"rprivate"}})"));
  EXPECT_EQ(mounts[4], json::parse(R"({"Type":"bind","Source":"/","Target":"/host","ReadOnly":true,
                                       "BindOptions":{"Propagation":"rslave"}})"));
}

TEST_F(ContainerLauncherTest, PullsAMissingImage) {
  engine_.Answer("GET /images/registry.example:5000/plugin:1/json", 404, R"({"message":"no such image"})");
  ASSERT_OK(launcher_.Launch(spec_, Soon()));
  EXPECT_THAT(engine_.calls(), Contains("POST /images/create fromImage=registry.example:5000/plugin:1"));
}

TEST_F(ContainerLauncherTest, PullsOnlyLatestWithoutATag) {
  spec_.run.image = "registry.example:5000/plugin";
  engine_.Answer("GET /images/registry.example:5000/plugin/json", 404, "{}");
  ASSERT_OK(launcher_.Launch(spec_, Soon()));
  EXPECT_THAT(engine_.calls(), Contains("POST /images/create fromImage=registry.example:5000/plugin:latest"));
}

TEST_F(ContainerLauncherTest, FailedPullGivesTheEnginesError) {
  engine_.Answer("GET /images/registry.example:5000/plugin:1/json", 404, "{}");
  engine_.Answer("POST /images/create", 200, "{\"status\":\"Pulling\"}\n{\"error\":\"manifest unknown\"}\n");
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(), FailsWith(Code::kUnavailable, "manifest unknown"));
  EXPECT_THAT(engine_.calls(), Not(Contains(HasSubstr("/containers/create"))));
}

TEST_F(ContainerLauncherTest, RemovesAContainerThatCannotBeStarted) {
  engine_.Answer("POST " + kContainer + "/start", 500, R"({"message":"path is not a shared mount"})");
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(),
              FailsWith(Code::kInternal, "said 500: path is not a shared mount"));
  EXPECT_THAT(engine_.calls().back(), StartsWith("DELETE " + kContainer));
}

TEST_F(ContainerLauncherTest, RemovesTheContainerAfterAFailedCreate) {
  engine_.Answer("POST /containers/create", 500, R"({"message":"no space left"})");
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(), FailsWith(Code::kInternal, "no space left"));
  EXPECT_THAT(engine_.calls().back(), StartsWith("DELETE " + kContainer));
}

TEST_F(ContainerLauncherTest, StopEndsASilentPull) {
  engine_.Answer("GET /images/registry.example:5000/plugin:1/json", 404, "{}");
  engine_.Hang("POST /images/create");
  std::stop_source stop;
  spec_.stop = stop.get_token();
  auto launched = std::async(std::launch::async, [&] { return launcher_.Launch(spec_, Soon()).status(); });
  ASSERT_TRUE(engine_.WaitForCall("POST /images/create"));
  const auto before = Clock::now();
  stop.request_stop();
  EXPECT_THAT(launched.get(), FailsWith(Code::kCancelled, "pull image"));
  EXPECT_LT(Clock::now() - before, seconds(5));
  EXPECT_THAT(engine_.calls(), Not(Contains(HasSubstr("/containers/create"))));
}

TEST_F(ContainerLauncherTest, LaunchesNothingAfterAStop) {
  std::stop_source stop;
  spec_.stop = stop.get_token();
  stop.request_stop();
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(), FailsWith(Code::kCancelled, "cancelled"));
  EXPECT_THAT(engine_.calls(), Not(Contains(HasSubstr("/containers/create"))));
}

// The engine may have made the container, so the caller gets it to end it.
TEST_F(ContainerLauncherTest, GivesTheContainerOfACancelledCreate) {
  engine_.Hang("POST /containers/create");
  std::stop_source stop;
  spec_.stop = stop.get_token();
  auto launched = std::async(std::launch::async, [&] { return launcher_.Launch(spec_, Soon()); });
  ASSERT_TRUE(engine_.WaitForCall("POST /containers/create"));
  stop.request_stop();
  const auto container = launched.get();
  ASSERT_OK(container);
  EXPECT_OK((*container)->End(Clock::now(), {}));
  EXPECT_THAT(engine_.calls().back(), StartsWith("DELETE " + kContainer));
}

TEST_F(ContainerLauncherTest, LabelsNameTheOwner) {
  spec_.run.generation = 7;
  ASSERT_OK(launcher_.Launch(spec_, Soon()));
  json labels = json::parse(R"({"mooring.manager":"0123abcd","mooring.host":"web1","mooring.plugin":"db plugin",
      "mooring.instance":"db%20plugin-0a1b2c3d","mooring.generation":"7"})");
  labels["mooring.runtime"] = directory_ / "plugins";
  EXPECT_EQ(engine_.created()["Labels"], labels);
}

TEST_F(ContainerLauncherTest, RemovesStraysBeforeTheLaunch) {
  fs::create_directories(directory_ / "plugins/db-00000001");
  std::ofstream(directory_ / "plugins/db-00000001/instance") << "{}";
  engine_.Answer("GET /containers/json", 200,
                 "[" + Listed("on-record", "0123abcd", "db plugin", "db-00000001") + "," +
                     Listed("stray", "0123abcd", "db plugin", "db-00000002") + "," +
                     Listed("anothers", "ffffffff", "db plugin", "db-00000003") + "," +
                     Listed("of-another-plugin", "0123abcd", "other", "other-00000004") + "," +
                     Listed("of-a-copy", "0123abcd", "db plugin", "db-00000005", "elsewhere") + "," +
                     Listed("odd", "0123abcd", "db plugin", "../db") +
                     R"(,{"Id":"no-labels","Labels":null},{"Id":"none-at-all"}])");
  ASSERT_OK(launcher_.Launch(spec_, Soon()));
  const auto calls = engine_.calls();
  EXPECT_EQ(calls[0], R"(GET /containers/json all=1 filters={"label":["mooring.manager=0123abcd"]})");
  EXPECT_THAT(calls[1], StartsWith("POST /containers/stray/stop"));
  EXPECT_EQ(calls[2], "DELETE /containers/stray force=1 v=1");
  EXPECT_THAT(calls[3], StartsWith("GET /images/"));

  ASSERT_OK(launcher_.EndStrays("", Soon(), {}));
  EXPECT_THAT(engine_.calls(), Contains("DELETE /containers/of-another-plugin force=1 v=1"));
  for (const char* left : {"on-record", "anothers", "of-a-copy", "odd", "no-labels", "none-at-all"}) {
    EXPECT_THAT(engine_.calls(), Not(Contains(HasSubstr(std::string("/containers/") + left)))) << left;
  }
}

TEST_F(ContainerLauncherTest, RefusesToLaunchBesideAStray) {
  engine_.Answer("GET /containers/json", 200, "[" + Listed("stray", "0123abcd", "db plugin", "db-00000002") + "]");
  engine_.Answer("DELETE /containers/stray", 500, R"({"message":"busy"})");
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(), FailsWith(Code::kInternal, "an instance that is gone"));
  EXPECT_THAT(engine_.calls(), Not(Contains(HasSubstr("/containers/create"))));
  engine_.Answer("GET /containers/json", 200, R"([7])");
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(), FailsWith(Code::kInternal, "not a list"));
}

// The sweep at the start and a launch may find the same stray.
TEST_F(ContainerLauncherTest, WaitsForTheRemovalOfAStray) {
  engine_.Answer("GET /containers/json", 200, "[" + Listed("stray", "0123abcd", "db plugin", "db-00000002") + "]");
  engine_.Answer("DELETE /containers/stray", 409, R"({"message":"removal of container stray is already in progress"})");
  auto launched = std::async(std::launch::async, [&] { return launcher_.Launch(spec_, Soon()).status(); });
  ASSERT_TRUE(engine_.WaitForCall("GET /containers/stray/json"));
  EXPECT_THAT(engine_.calls(), Not(Contains(HasSubstr("/containers/create"))));
  engine_.Answer("GET /containers/stray/json", 404, R"({"message":"no such container"})");
  EXPECT_OK(launched.get());

  const manager::PluginContainer stuck(manager::EngineClient(directory_ / "engine.sock"), "stray");
  engine_.Answer("GET /containers/stray/json", 200, "{}");
  EXPECT_THAT(stuck.Remove(Clock::now() + seconds(2)), FailsWith(Code::kAlreadyExists, "already in progress"));
}

TEST_F(ContainerLauncherTest, GivesAContainerThatCannotBeRemoved) {
  engine_.Answer("POST " + kContainer + "/start", 500, R"({"message":"broken"})");
  engine_.Answer("DELETE " + kContainer, 500, R"({"message":"busy"})");
  const auto container = launcher_.Launch(spec_, Soon());
  ASSERT_OK(container);
  EXPECT_THAT((*container)->End(Clock::now(), {}), FailsWith(Code::kInternal, "busy"));
}

TEST_F(ContainerLauncherTest, ErrorNamesAMissingEngine) {
  spec_.run.engine = directory_ / "nobody.sock";
  EXPECT_THAT(launcher_.Launch(spec_, Soon()).status(), FailsWith(Code::kUnavailable, "nobody.sock"));
}

TEST_F(ContainerLauncherTest, DescribesHowItEndedAndItsLastOutput) {
  const auto container = launcher_.Launch(spec_, Soon());
  ASSERT_OK(container);
  SetState(R"({"Running":false,"ExitCode":3,"OOMKilled":true,"Error":""})");
  using std::string_literals::operator""s;
  engine_.Answer("GET " + kContainer + "/logs", 200, "\x01\0\0\0\0\0\0\x04one\n\x02\0\0\0\0\0\0\x04two\n"s);
  EXPECT_FALSE((*container)->IsAlive());
  EXPECT_EQ((*container)->Describe(),
            "container " + kName +
                " ended with exit code 3, because it used more memory than allowed; its last output: "
                "one | two");
}

TEST_F(ContainerLauncherTest, AdoptsByName) {
  SetState(R"({"Running":true})");
  const auto adopted = launcher_.Adopt(spec_);
  ASSERT_OK(adopted);
  EXPECT_TRUE((*adopted)->IsAlive());
  engine_.Answer("GET " + kContainer + "/json", 404, R"({"message":"no such container"})");
  EXPECT_FALSE((*adopted)->IsAlive());
  EXPECT_THAT(launcher_.Adopt(spec_).status(), FailsWith(Code::kNotFound, "no such container"));
}

TEST_F(ContainerLauncherTest, CountsAsAliveWhileTheEngineIsSilent) {
  spec_.run.engine = directory_ / "nobody.sock";
  const auto adopted = launcher_.Adopt(spec_);
  ASSERT_OK(adopted);
  EXPECT_TRUE((*adopted)->IsAlive());
  EXPECT_THAT((*adopted)->End(Clock::now(), {}), FailsWith(Code::kUnavailable, "nobody.sock"));
}

TEST_F(ContainerLauncherTest, EndStopsThenRemoves) {
  const auto container = launcher_.Launch(spec_, Soon());
  ASSERT_OK(container);
  ASSERT_OK((*container)->End(Clock::now() + seconds(10), {}));
  const auto calls = engine_.calls();
  EXPECT_EQ(calls[calls.size() - 2], "POST " + kContainer + "/stop t=9");
  EXPECT_EQ(calls.back(), "DELETE " + kContainer + " force=1 v=1");
  engine_.Answer("POST " + kContainer + "/stop", 404, "{}");
  EXPECT_OK((*container)->End(Clock::now(), {}));
}

TEST_F(ContainerLauncherTest, CancelsAnEndThatTheEngineIsWaitingFor) {
  const auto container = launcher_.Launch(spec_, Soon());
  ASSERT_OK(container);
  engine_.Hang("POST " + kContainer + "/stop");
  std::stop_source stop;
  auto ended =
      std::async(std::launch::async, [&] { return (*container)->End(Clock::now() + seconds(60), stop.get_token()); });
  ASSERT_TRUE(engine_.WaitForCall("POST " + kContainer + "/stop t="));
  const auto before = Clock::now();
  stop.request_stop();
  EXPECT_THAT(ended.get(), FailsWith(Code::kCancelled, "stop container"));
  EXPECT_LT(Clock::now() - before, seconds(5));
}

TEST(PluginContainerTest, ReadsALogThatEndsInsideAFrame) {
  using std::string_literals::operator""s;
  EXPECT_EQ(manager::TextOfFrames(""), "");
  EXPECT_EQ(manager::TextOfFrames("\x01\0\0"s), "");
  EXPECT_EQ(manager::TextOfFrames("\x01\0\0\0\xff\xff\xff\xff"
                                  "abc"s),
            "abc");
}

}  // namespace
}  // namespace mooring::testing
