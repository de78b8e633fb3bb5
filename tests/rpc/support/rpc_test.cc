#include "tests/rpc/support/rpc_test.h"

#include <sqlite3.h>
#include <sys/statvfs.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/hold_image.h"
#include "tests/support/holders.h"

namespace mooring::testing {

namespace {

// The lines that only one of the texts has, as a diff shows them.
std::string Difference(const std::string& before, const std::string& after) {
  const auto only_in = [](const std::string& a, const std::string& b, const char* mark) {
    std::istringstream stream(a);
    std::string lines;
    for (std::string line; std::getline(stream, line);) {
      if (("\n" + b).find("\n" + line + "\n") == std::string::npos) lines += mark + line + "\n";
    }
    return lines;
  };
  return only_in(before, after, "- ") + only_in(after, before, "+ ");
}

}  // namespace

RpcTest::RpcTest()
    : plugin_({.socket = dir_ / "csi.sock",
               .state_dir = dir_ / "state",
               .log_file = dir_ / "plugin.log",
               .flags = {"--node-id", kNode, "--log-level", "debug"},
               .environment = {}}),
      driver_(dir_ / "csi.sock") {
  const char* const user = std::getenv("MOORING_TEST_USER");
  if (user == nullptr) return;
  const std::string ids = user;  // "UID:GID"
  AddFlags({"--user", ids});
  AllowSocketsOf(static_cast<gid_t>(std::stoul(ids.substr(ids.find(':') + 1))));
}

void RpcTest::AllowSocketsOf(gid_t group) {
  EXPECT_EQ(::chown(dir_.path().c_str(), 0, group), 0);
  EXPECT_EQ(::chmod(dir_.path().c_str(), 0771), 0);
}

void RpcTest::Start() {
  ASSERT_TRUE(plugin_.Start());
  driver_.Connect();
}

void RpcTest::Restart(int signal) {
  driver_.Disconnect();
  const int ended = plugin_.End(signal);
  EXPECT_EQ(ended, signal == SIGKILL ? 128 + SIGKILL : 0) << plugin_.Log();
  Start();
}

void RpcTest::StopPlugin() {
  driver_.Disconnect();
  EXPECT_EQ(plugin_.Terminate(), 0) << plugin_.Log();
}

void RpcTest::KillAndForget() {
  plugin_.Kill();
  ForgetRecords();
  Start();
}

void RpcTest::RestartWithPath(const std::string& path) {
  plugin_.options().environment.erase("PATH");
  if (!path.empty()) plugin_.options().environment["PATH"] = path;
  Restart(SIGTERM);
}

void RpcTest::AddFlags(const std::vector<std::string>& flags) {
  plugin_.options().flags.insert(plugin_.options().flags.end(), flags.begin(), flags.end());
}

void RpcTest::RestartWith(const std::vector<std::string>& flags) {
  AddFlags(flags);
  Restart(SIGTERM);
}

Answer<csi::v1::ProbeResponse> RpcTest::Probe() {
  driver_.Connect();
  return driver_.Send(ProbeRequest());
}

bool RpcTest::IsReady() {
  const auto probe = Probe();
  return probe.status.ok() && probe->ready().value();
}

int RpcTest::CountInLog(const std::string& piece, std::size_t from) const {
  const std::string log = plugin_.Log();
  int count = 0;
  for (std::size_t at = log.find(piece, from); at != std::string::npos; at = log.find(piece, at + 1)) ++count;
  return count;
}

UniqueFd RpcTest::RestartHeldUp() {
  const std::string id = Created();
  StopPlugin();
  UniqueFd lock = HoldImage(Image(id));
  Rows(state_dir() + "/catalog.db", "UPDATE volumes SET state = 'creating' WHERE id = '" + id + "'");
  plugin_.Launch();
  EXPECT_TRUE(Eventually([&] { return Probe().status.ok(); })) << "the socket is there at once";
  return lock;
}

void RpcTest::ForgetRecords() {
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(state_dir() + "/node.db" + suffix);
}

std::string RpcTest::Created(const VolumeCapability& capability, std::int64_t bytes) {
  return Created(CreateRequest("volume-" + std::to_string(++volumes_), capability, bytes));
}

std::string RpcTest::Created(const CreateVolumeRequest& request) {
  const auto answer = driver_.Send(request);
  EXPECT_OK(answer);
  return answer->volume().volume_id();
}

std::string RpcTest::Staged(const VolumeCapability& capability, std::int64_t bytes) {
  const std::string id = Created(capability, bytes);
  EXPECT_OK(driver_.Stage(id, Staging(id), capability));
  return id;
}

std::string RpcTest::Published(const std::string& target, const VolumeCapability& capability, std::int64_t bytes) {
  const std::string id = Staged(capability, bytes);
  EXPECT_OK(driver_.Publish(id, Staging(id), target, capability));
  return id;
}

void RpcTest::StageAndPublish(const std::string& id, const std::string& target, const VolumeCapability& capability) {
  EXPECT_OK(driver_.Stage(id, Staging(id), capability));
  EXPECT_OK(driver_.Publish(id, Staging(id), target, capability));
}

void RpcTest::UnpublishAndUnstage(const std::string& id, const std::string& target) {
  EXPECT_OK(driver_.Unpublish(id, target));
  EXPECT_OK(driver_.Unstage(id, Staging(id)));
}

std::string RpcTest::Snapped(const std::string& name, const std::string& volume) {
  const auto answer = driver_.Snap(name, volume);
  EXPECT_OK(answer);
  return answer->snapshot().snapshot_id();
}

std::string RpcTest::MakeDirectories(const std::string& below_dir) {
  const std::string path = dir_ / below_dir;
  fs::create_directories(path);
  return path;
}

std::string RpcTest::Staging(const std::string& volume, const std::string& usage) {
  const std::string below_dir = "csi/staging/default/" + volume + "/" + usage;
  if (!fs::exists(dir_ / below_dir)) ::chmod(MakeDirectories(below_dir).c_str(), 0700);
  return dir_ / below_dir;
}

std::string RpcTest::Target(const std::string& allocation, const std::string& volume) {
  return MakeDirectories("csi/per-alloc/" + allocation + "/" + volume) + "/rw-file-system-single-node-writer";
}

void RpcTest::Refused(const std::function<absl::Status()>& call, Code code, const std::string& piece,
                      const std::source_location& where) {
  const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "the refused call");
  // The kernel needs a moment to free a loop device, before the call and after it.
  const auto is_going = [](const LoopLine& loop) {
    return loop.auto_clear && !HoldOfDevice(loop.device).empty() && !HasHold(loop.device);
  };
  Eventually(
      [&] {
        const auto loops = LoopsHere();
        return std::none_of(loops.begin(), loops.end(), is_going);
      },
      std::chrono::seconds(3));
  const std::string before = World();
  EXPECT_THAT(call(), FailsWith(code, piece));
  std::string after;
  Eventually([&] { return (after = World()) == before; }, std::chrono::seconds(1));
  EXPECT_EQ(Difference(before, after), "");
}

void RpcTest::MountTmpfs(const std::string& path, const std::string& options) {
  fs::create_directories(path);
  ASSERT_EQ(::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()), 0);
  AllowMount(path);
}

void RpcTest::ShareDirectory() {
  const char* path = dir_.path().c_str();
  ASSERT_EQ(::mount(path, path, nullptr, MS_BIND, nullptr), 0);
  AllowMount(dir_.path());
  ASSERT_EQ(::mount(nullptr, path, nullptr, MS_PRIVATE, nullptr), 0);  // no peer of a shared "/"
  ASSERT_EQ(::mount(nullptr, path, nullptr, MS_SHARED, nullptr), 0);
}

void RpcTest::AllowMount(const std::string& path) { own_mounts_.push_back(path); }

std::string RpcTest::Wrapper(const std::string& program, const std::string& script) {
  const std::string bin = MakeDirectories("bin");
  const std::string path = bin + "/" + program;
  std::ofstream(path) << "#!/bin/sh\necho $$ >> " << dir_ / program << ".runs\n" << script << "\n";
  fs::permissions(path, fs::perms::owner_all);
  return bin + ":/usr/sbin:/usr/bin:/sbin:/bin";
}

std::string RpcTest::FailingMkfs() { return Wrapper("mkfs.ext4", "echo the disk is on fire >&2; exit 1"); }

std::vector<pid_t> RpcTest::ToolRuns(const std::string& program) const {
  std::istringstream runs(ReadFile(dir_ / program + ".runs"));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; runs >> pid;) pids.push_back(pid);
  return pids;
}

std::string RpcTest::AttachLoop(const std::string& file) {
  const std::string device = RunOutput("losetup --find --show " + file);
  EXPECT_TRUE(device.starts_with("/dev/loop")) << file;
  return device.substr(0, device.find('\n'));
}

void RpcTest::ExpectNoLoops() {
  std::vector<LoopLine> left;
  Eventually([&] { return (left = LoopsHere()).empty(); });
  for (const LoopLine& loop : left) ADD_FAILURE() << "left attached: " << loop.device;
}

std::vector<LoopLine> RpcTest::LoopsHere() const {
  std::vector<LoopLine> here = LoopsOver(dir_.path() + "/");
  const std::vector<LoopLine> stacked = LoopsOver("/dev/loop");
  const std::size_t below = here.size();
  for (const LoopLine& loop : stacked) {
    const auto is_base = [&](const LoopLine& base) { return base.device == loop.backing_file; };
    if (std::any_of(here.begin(), here.begin() + static_cast<std::ptrdiff_t>(below), is_base)) here.push_back(loop);
  }
  return here;
}

std::string RpcTest::RawMounts() const {
  std::ifstream file("/proc/self/mountinfo");
  std::string mounts;
  for (std::string line; std::getline(file, line);) {
    if (line.find(" " + dir_.path()) != std::string::npos) mounts += line + "\n";
  }
  return mounts;
}

void RpcTest::UndoCalls() {
  const Driver::Done done = driver_.TakeDone();
  for (const auto& [id, path] : done.published) EXPECT_OK(driver_.Unpublish(id, path)) << path;
  for (const auto& [id, path] : done.staged) EXPECT_OK(driver_.Unstage(id, path)) << path;
  for (const std::string& id : done.snapshots) EXPECT_OK(driver_.DeleteSnapshot(id)) << id;
  for (const std::string& id : done.created) {
    EXPECT_OK(driver_.Detach(id, "")) << id;
    EXPECT_OK(driver_.Delete(id)) << id;
  }
  for (const auto& [id, path] : done.published) EXPECT_FALSE(fs::exists(fs::symlink_status(path))) << path;
}

void RpcTest::TearDown() {
  if (plugin_.running() && !HasFatalFailure()) {
    ExpectNoCopies(dir_.path());
    UndoCalls();
    for (const MountLine& line : MountsBelow(dir_.path())) {
      const bool own = std::find(own_mounts_.begin(), own_mounts_.end(), line.target) != own_mounts_.end();
      EXPECT_TRUE(own) << "left mounted: " << line.target;
    }
    ExpectNoLoops();
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(state_dir() + "/volumes", error)) {
      ADD_FAILURE() << "left on disk: " << entry.path();
    }
    EXPECT_THAT(Rows(state_dir() + "/node.db", "SELECT path FROM uses"), IsEmpty());
    StopPlugin();
  }
  plugin_.Kill();
  RemoveRemains();
  if (HasFailure()) std::fprintf(stderr, "The plugin's log:\n%s\n", plugin_.Log().c_str());
}

// Removes all that a failed test left, and the mounts that the test made.
void RpcTest::RemoveRemains() {
  std::vector<MountLine> mounts = MountsBelow(dir_.path());
  std::reverse(mounts.begin(), mounts.end());
  for (const MountLine& line : mounts) ::umount2(line.target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  std::vector<LoopLine> loops = LoopsHere();
  std::reverse(loops.begin(), loops.end());
  for (const LoopLine& loop : loops) DetachLoop(loop);
  Eventually([&] { return LoopsHere().empty(); });
}

std::vector<std::string> StrangeIds() {
  return {"x",
          "vol-",
          "vol-00000000000000000000000000000000",
          "vol-0123456789ABCDEF0123456789ABCDEF",
          "vol-00000000000000000000000000000000/../x",
          "../../../etc/passwd",
          "..",
          "/",
          "a\nb",
          std::string("a\0b", 3),
          "'; DROP TABLE volumes; --",
          "größe",
          std::string(300, 'a'),
          std::string(1'000'000, 'a')};
}

std::uint64_t DeviceBytes(const std::string& device) {
  return std::stoull("0" + ReadFile("/sys/block/" + fs::path(device).filename().string() + "/size")) * 512;
}

std::uint64_t MountedBytes(const std::string& path) {
  struct statvfs status = {};
  EXPECT_EQ(::statvfs(path.c_str(), &status), 0) << path;
  return std::uint64_t{status.f_blocks} * status.f_frsize;
}

std::string RunOutput(const std::string& shell_command) {
  std::string output;
  FILE* pipe = ::popen(shell_command.c_str(), "r");
  if (pipe == nullptr) return output;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  ::pclose(pipe);
  return output;
}

struct stat StatOf(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

std::string NameOfRow(const ::testing::TestParamInfo<const char*>& row) { return row.param; }
std::string MountOrBlock(const ::testing::TestParamInfo<bool>& is_block) { return is_block.param ? "Block" : "Mount"; }

std::vector<std::string> Rows(const std::string& database, const std::string& sql) {
  std::vector<std::string> rows;
  sqlite3* connection = nullptr;
  EXPECT_EQ(::sqlite3_open_v2(database.c_str(), &connection, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK) << database;
  ::sqlite3_busy_timeout(connection, 5000);
  const auto add = [](void* to, int count, char** values, char**) {
    std::string row;
    for (int i = 0; i < count; ++i) row += std::string(i == 0 ? "" : "|") + (values[i] == nullptr ? "" : values[i]);
    static_cast<std::vector<std::string>*>(to)->push_back(row);
    return 0;
  };
  EXPECT_EQ(::sqlite3_exec(connection, sql.c_str(), add, &rows, nullptr), SQLITE_OK) << ::sqlite3_errmsg(connection);
  ::sqlite3_close(connection);
  return rows;
}

}  // namespace mooring::testing
