// The manager with a real plugin: ours, and a strict one that shares no code with it. tests/drivers plays whole
// scenarios.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_split.h"
#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

class Drivers : public ManagerTest {};

TEST_F(Drivers, AttachReportsStepsAndIsIdempotent) {
  RunPlugin(kOurPlugin);
  Create("db", kOurPlugin);
  v1::AttachRequest request = RequestFor("db", "web-1", dir() / "db");
  std::vector<std::string> steps;
  ASSERT_OK(client().Attach(request, &steps));
  EXPECT_THAT(steps, Not(IsEmpty()));
  const std::vector<std::string> before = MountIds();
  EXPECT_OK(client().Attach(request));
  EXPECT_EQ(MountIds(), before);
  request.set_allocation("web-2");
  EXPECT_THAT(client().Attach(request), FailsWith(Code::kAlreadyExists, dir() / "db"));
  request.set_attach_path(dir() / "db2");
  EXPECT_THAT(client().Attach(request), FailsWith(Code::kFailedPrecondition, "web-1")) << "for one writer";
  EXPECT_EQ(MountIds(), before);
}

TEST_F(Drivers, WorkSideBySideAndKeepMountsAtStop) {
  RunPlugin(kOurPlugin);
  RunPlugin(kStrictPlugin);
  Create("one", kOurPlugin);
  Create("two", kStrictPlugin);
  const std::string one = Attached("one"), two = Attached("two");
  EXPECT_OK(client().StopPlugin(kStrictPlugin));
  EXPECT_EQ(PluginPid(kStrictPlugin), -1);
  EXPECT_EQ(TryWrite(two + "/f", "still there"), 0);
  EXPECT_EQ(TryWrite(one + "/f", "still there"), 0);
  EXPECT_OK(client().Detach("web-1", "one"));
  RunPlugin(kStrictPlugin);
  EXPECT_OK(client().Detach("web-1", "two"));
}

// While only readers can use the volume, it is staged in their mode.
TEST_F(Drivers, ReadersOnlyStageUsesReaderMode) {
  RunPlugin(kStrictPlugin);
  v1::Volume volume = VolumeOf("db", kStrictPlugin);
  v1::AttachRequest reader = RequestFor("db", "r1", dir() / "r1");
  *reader.mutable_capability() = volume.capabilities(0);
  reader.mutable_capability()->set_access(v1::MULTI_NODE_READER_ONLY);
  reader.set_read_only(true);
  *volume.add_capabilities() = reader.capability();
  ASSERT_OK(client().Create(volume));
  ASSERT_OK(client().Attach(reader));
  EXPECT_THAT(client().Attach("db", "w", dir() / "w"), FailsWith(Code::kFailedPrecondition, "no free write claim"));
  std::vector<std::string> modes;
  std::istringstream calls(ReadFile(dir() / "calls"));
  for (std::string line; std::getline(calls, line);) {
    const auto call = nlohmann::json::parse(line);
    if (call["method"] != "NodeStageVolume") continue;
    modes.push_back(call["request"]["volume_capability"]["access_mode"]["mode"]);
  }
  EXPECT_THAT(modes, ElementsAre("MULTI_NODE_READER_ONLY"));
}

// The last --endpoint counts, which the shell takes from its word or its variable.
TEST_F(Drivers, SocketIsPassedInWordOrVariable) {
  for (const char* const from : {"$0", "$SOCKET"}) {
    std::vector<std::string> command = {"/bin/sh", "-c", std::string("exec \"$@\" --endpoint=") + from,
                                        "unix://{socket}"};
    for (const std::string& word : PluginCommand(kStrictPlugin)) command.push_back(word);
    v1::PluginRun run = RunOf(command);
    (*run.mutable_environment())["SOCKET"] = "{endpoint}";
    ASSERT_OK(client().RunPlugin(kStrictPlugin, run));
    EXPECT_GT(PluginPid(kStrictPlugin), 0);
  }
}

TEST_F(Drivers, RunReportsHealthOfEachInstance) {
  const auto started = client().RunPlugin(kStrictPlugin, PluginCommand(kStrictPlugin));
  ASSERT_OK(started);
  ASSERT_THAT(started->instances(), SizeIs(2)) << "node and controller";
  for (const v1::InstanceStatus& instance : started->instances()) {
    EXPECT_TRUE(instance.healthy()) << instance.words();
    EXPECT_GT(instance.checked_at_ms(), 0);
  }
  EXPECT_EQ(started->nodes().healthy(), 1);
  EXPECT_EQ(started->controllers().healthy(), 1);
  const std::string socket = started->instances(0).instance().socket_path();
  for (int i = 0; i < 5; ++i) {
    v1::RegisterPluginRequest request;
    request.set_name("again-" + std::to_string(i));
    request.set_endpoint("unix://" + socket);
    request.set_wait(true);
    const auto registered = client().Ask(&v1::Manager::Stub::RegisterPlugin, request);
    ASSERT_OK(registered);
    for (const v1::InstanceStatus& instance : registered->plugin().instances()) {
      EXPECT_TRUE(instance.healthy()) << instance.words();
    }
  }
}

TEST_F(Drivers, RunReportsUnhealthyInstance) {
  Inject("NodeGetInfo", "fail INTERNAL no name here");
  const auto started = client().RunPlugin(kStrictPlugin, PluginCommand(kStrictPlugin));
  ASSERT_OK(started);
  EXPECT_EQ(started->nodes().healthy(), 0);
  std::string words;
  for (const v1::InstanceStatus& instance : started->instances()) words += instance.words();
  EXPECT_THAT(words, HasSubstr("no name here"));
  EndFault("NodeGetInfo");
}

TEST_F(Drivers, HostileNamesStayBelowRootAndApart) {
  RunPlugin(kStrictPlugin);
  std::vector<std::string> ids = absl::StrSplit("../x|..|.|a/b|a|[0]|db[0]|with space|ünïcode-水|%2E%2E|a%2Fb|~", '|');
  ids.push_back(std::string(255, 'x'));
  ids.push_back(std::string(254, 'x') + "y");
  for (const std::string& id : ids) Create(id, kStrictPlugin);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto request = RequestFor(ids[i], "../" + ids[i].substr(0, 200), dir() / ("at-" + std::to_string(i)));
    ASSERT_OK(client().Attach(request)) << ids[i];
    EXPECT_EQ(TryWrite(request.attach_path() + "/id", ids[i]), 0);
  }
  std::vector<std::string> targets;
  for (const v1::Attachment& attachment : client().Attachments()) {
    targets.push_back(attachment.target_path());
    EXPECT_TRUE(attachment.target_path().starts_with(root() + "/")) << attachment.target_path();
    EXPECT_THAT(attachment.target_path(), Not(HasSubstr("/../")));
    EXPECT_EQ(ReadFile(attachment.attach_path() + "/id"), attachment.volume().id());
  }
  std::sort(targets.begin(), targets.end());
  EXPECT_EQ(std::unique(targets.begin(), targets.end()), targets.end());
  EXPECT_EQ(targets.size(), ids.size());
}

}  // namespace
}  // namespace mooring::testing
