#include "tests/rpc/support/rpc_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/holders.h"

namespace mooring::testing {

namespace fs = std::filesystem;

namespace {

// The lines of one that the other has not, in the order of a diff.
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
  plugin_.options().flags.insert(plugin_.options().flags.end(), {"--user", ids});
  LetIn(static_cast<gid_t>(std::stoul(ids.substr(ids.find(':') + 1))));
}

void RpcTest::LetIn(gid_t group) {
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

UniqueFd RpcTest::RestartHeldUp() {
  const std::string id = Created();
  UniqueFd lock(::open(Image(id).c_str(), O_RDWR | O_CLOEXEC));
  driver_.Disconnect();
  EXPECT_EQ(plugin_.Terminate(), 0);
  EXPECT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0) << Image(id);
  Rows(state_dir() + "/catalog.db", "UPDATE volumes SET state = 'creating' WHERE id = '" + id + "'");
  plugin_.Launch();
  EXPECT_TRUE(Eventually([&] {
    driver_.Connect();
    return driver_.Send(csi::v1::ProbeRequest()).status.ok();
  })) << "the socket is there at once";
  return lock;
}

void RpcTest::ForgetRecords() {
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(state_dir() + "/node.db" + suffix);
}

std::string RpcTest::Created(const VolumeCapability& capability, std::int64_t bytes) {
  const auto answer = driver_.Create("volume-" + std::to_string(++volumes_), capability, bytes);
  EXPECT_OK(answer);
  return answer->volume().volume_id();
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

bool RpcTest::Eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void RpcTest::Refused(const std::function<absl::Status()>& call, Code code, const std::string& piece,
                      const std::source_location& where) {
  const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "the refused call");
  const std::string before = World();
  EXPECT_THAT(call(), FailsWith(code, piece));
  // A loop device that was made and let go again takes the kernel a moment.
  std::string after;
  Eventually([&] { return (after = World()) == before; }, std::chrono::seconds(1));
  EXPECT_EQ(Difference(before, after), "");
}

void RpcTest::MountTmpfs(const std::string& path, const std::string& options) {
  fs::create_directories(path);
  ASSERT_EQ(::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()), 0);
  Forgive(path);
}

void RpcTest::ShareDirectory() {
  const char* path = dir_.path().c_str();
  ASSERT_EQ(::mount(path, path, nullptr, MS_BIND, nullptr), 0);
  Forgive(dir_.path());
  ASSERT_EQ(::mount(nullptr, path, nullptr, MS_SHARED, nullptr), 0);
}

void RpcTest::Forgive(const std::string& path) { own_mounts_.push_back(path); }

std::string RpcTest::Wrapper(const std::string& program, const std::string& script) {
  const std::string bin = MakeDirectories("bin");
  const std::string path = bin + "/" + program;
  std::ofstream(path) << "#!/bin/sh\necho $$ >> " << dir_ / program << ".runs\n" << script << "\n";
  fs::permissions(path, fs::perms::owner_all);
  return bin + ":/usr/sbin:/usr/bin:/sbin:/bin";
}

std::string RpcTest::SlowTool(const std::string& program, double seconds) {
  return Wrapper(program, "sleep " + std::to_string(seconds) + "\nexec /usr/sbin/" + program + " \"$@\"");
}

std::string RpcTest::FailingMkfs() { return Wrapper("mkfs.ext4", "echo the disk is on fire >&2; exit 1"); }

std::vector<pid_t> RpcTest::ToolRuns(const std::string& program) const {
  std::istringstream runs(ReadFile(dir_ / program + ".runs"));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; runs >> pid;) pids.push_back(pid);
  return pids;
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

void RpcTest::TakeBack() {
  const Driver::Done done = driver_.TakeDone();
  for (const auto& [id, path] : done.published) EXPECT_OK(driver_.Unpublish(id, path)) << path;
  for (const auto& [id, path] : done.staged) EXPECT_OK(driver_.Unstage(id, path)) << path;
  for (const std::string& id : done.created) {
    EXPECT_OK(driver_.Detach(id, "")) << id;
    EXPECT_OK(driver_.Delete(id)) << id;
  }
  for (const auto& [id, path] : done.published) EXPECT_FALSE(fs::exists(fs::symlink_status(path))) << path;
}

void RpcTest::TearDown() {
  if (plugin_.running() && !HasFatalFailure()) {
    TakeBack();
    for (const MountLine& line : MountsBelow(dir_.path())) {
      const bool own = std::find(own_mounts_.begin(), own_mounts_.end(), line.target) != own_mounts_.end();
      EXPECT_TRUE(own) << "left mounted: " << line.target;
    }
    EXPECT_TRUE(Eventually([&] { return LoopsHere().empty(); })) << "left attached: " << LoopsHere().front().device;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(state_dir() + "/volumes", error)) {
      ADD_FAILURE() << "left on disk: " << entry.path();
    }
    EXPECT_THAT(Rows(state_dir() + "/node.db", "SELECT path FROM uses"), ::testing::IsEmpty());
    driver_.Disconnect();
    EXPECT_EQ(plugin_.Terminate(), 0) << plugin_.Log();
  }
  plugin_.Kill();
  SweepUp();
  if (HasFailure()) std::fprintf(stderr, "The plugin's log:\n%s\n", plugin_.Log().c_str());
}

// Whatever a failed test left, by force; and the mounts of its own.
void RpcTest::SweepUp() {
  std::vector<MountLine> mounts = MountsBelow(dir_.path());
  std::reverse(mounts.begin(), mounts.end());
  for (const MountLine& line : mounts) ::umount2(line.target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  std::vector<LoopLine> loops = LoopsHere();
  std::reverse(loops.begin(), loops.end());
  for (const LoopLine& loop : loops) {
    KillHolders(loop.device);
    Shell("losetup -d " + loop.device + " 2>/dev/null");
  }
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
