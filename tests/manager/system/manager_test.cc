#include "tests/manager/system/manager_test.h"

#include <signal.h>
#include <sys/mount.h>

#include <cstdio>

#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

constexpr std::uint64_t kBytes = 32 << 20;

}  // namespace

ManagerTest::ManagerTest()
    : process_({.socket = dir_ / "manager.sock",
                .state_dir = dir_ / "state",
                .runtime_dir = dir_ / "run",
                .log_file = dir_ / "manager.log"}) {
  fs::create_directory(dir_ / "faults");
}

void ManagerTest::Start() {
  process_.Launch();
  client_ = std::make_unique<ManagerClient>(process_.options().socket);
  const bool up = Eventually(
      [&] {
        if (!process_.running()) return true;
        client_ = std::make_unique<ManagerClient>(process_.options().socket);
        return client_->Ask(&v1::Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest()).ok();
      },
      seconds(30));
  ASSERT_TRUE(up && process_.running()) << "the manager does not serve:\n" << process_.Log();
}

void ManagerTest::Restart(int signal) {
  const int status = process_.End(signal);
  EXPECT_EQ(status, signal == SIGKILL ? 128 + SIGKILL : 0) << process_.Log();
  Start();
}

void ManagerTest::RemoveAll() {
  for (const v1::Attachment& attachment : client().Attachments()) {
    EXPECT_OK(client().Detach(attachment.allocation(), attachment.request()));
  }
  EXPECT_TRUE(Eventually([&] { return client().Attachments().empty(); }));
  for (const v1::Claim& claim : client().Claims()) {
    ADD_FAILURE() << "claimed still: " << claim.ShortDebugString();
  }
  const auto volumes = client().Volumes();
  EXPECT_OK(volumes);
  for (const v1::Volume& volume : volumes.ok() ? *volumes : std::vector<v1::Volume>()) {
    EXPECT_OK(client().Delete(volume.key().id()));
  }
  const auto plugins = client().Ask(&v1::Manager::Stub::ListPlugins, v1::ListPluginsRequest());
  EXPECT_OK(plugins);
  if (!plugins.ok()) return;
  for (const v1::PluginStatus& plugin : plugins->plugins()) EXPECT_OK(client().StopPlugin(plugin.name()));
}

void ManagerTest::TearDown() {
  if (!process_.running()) Start();
  ExpectNoCopies(dir_.path());
  if (!HasFatalFailure()) RemoveAll();
  EXPECT_EQ(process_.End(SIGTERM), 0);
  EXPECT_THAT(MountsHere(), ::testing::IsEmpty());
  ::umount2(root().c_str(), UMOUNT_NOFOLLOW);  // the manager leaves it mounted
  if (HasFailure()) std::fprintf(stderr, "the manager's log:\n%s\n", process_.Log().c_str());
}

std::vector<std::string> ManagerTest::PluginCommand(const std::string& name,
                                                    const std::vector<std::string>& more_flags) const {
  std::vector<std::string> command;
  if (name == kOurPlugin) {
    command = {MOORING_PLUGIN_BINARY, "--state-dir", dir_ / name, "--node-id", "node-1"};
  } else {
    command = {MOORING_SOURCE_DIR "/tests/drivers/strict/driver.py",
               "--endpoint={endpoint}",
               "--data",
               dir_ / name,
               "--calls",
               dir_ / "calls",
               "--control",
               dir_ / "faults"};
  }
  command.insert(command.end(), more_flags.begin(), more_flags.end());
  return command;
}

void ManagerTest::RunPlugin(const std::string& name, const std::vector<std::string>& more_flags) {
  ASSERT_OK(client().RunPlugin(name, PluginCommand(name, more_flags)));
}

pid_t ManagerTest::PluginPid(const std::string& name) const {
  const std::string directory = std::string(1, '\0') + (dir_ / name) + '\0';
  const std::string program = name == kOurPlugin ? std::string(MOORING_PLUGIN_BINARY) + '\0' : "strict/driver.py";
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string command = ReadFile("/proc/" + pid + "/cmdline");
    if (command.find(directory) != std::string::npos && command.find(program) != std::string::npos) {
      return std::stoi(pid);
    }
  }
  return -1;
}

v1::Volume ManagerTest::VolumeOf(const std::string& id, const std::string& plugin) const {
  v1::Volume volume;
  *volume.mutable_key() = Key(id);
  volume.set_plugin(plugin);
  volume.set_min_bytes(kBytes);
  v1::Capability& capability = *volume.add_capabilities();
  capability.set_access(v1::SINGLE_NODE_WRITER);
  capability.set_attachment(v1::FILE_SYSTEM);
  return volume;
}

void ManagerTest::Create(const std::string& id, const std::string& plugin) {
  ASSERT_OK(client().Create(VolumeOf(id, plugin)));
}

std::string ManagerTest::Attached(const std::string& id) {
  const std::string path = dir_ / id;
  EXPECT_OK(client().Attach(id, "web-1", path));
  return path;
}

v1::AttachRequest ManagerTest::CreateBlock(const std::string& id) {
  v1::Volume volume = VolumeOf(id, kOurPlugin);
  volume.mutable_capabilities(0)->set_attachment(v1::BLOCK_DEVICE);
  EXPECT_OK(client().Create(volume));
  v1::AttachRequest request = RequestFor(id, "web-1", dir_ / id);
  *request.mutable_capability() = volume.capabilities(0);
  return request;
}

void ManagerTest::Inject(const std::string& method, const std::string& fault) {
  std::ofstream(dir_ / "faults/.new") << fault;
  fs::rename(dir_ / "faults/.new", dir_ / ("faults/" + method));
}

void ManagerTest::EndFault(const std::string& method) { fs::remove(dir_ / ("faults/" + method)); }

std::vector<MountLine> ManagerTest::MountsHere() const {
  std::vector<MountLine> mounts;
  for (const MountLine& line : MountsBelow(dir_.path())) {
    if (line.target != root() && !line.target.starts_with(dir_ / kOurPlugin)) mounts.push_back(line);
  }
  return mounts;
}

std::vector<std::string> ManagerTest::MountIds() const {
  std::vector<std::string> ids;
  for (const MountLine& line : MountsHere()) ids.push_back(line.id + " " + line.target);
  return ids;
}

bool ManagerTest::Eventually(const std::function<bool()>& holds, milliseconds patience) {
  return WaitUntil(holds, patience);
}

}  // namespace mooring::testing
