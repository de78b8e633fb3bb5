// SqliteState beyond the contract of State: one process at a time, and at most one fdatasync per commit. A power cut
// cannot change the order of commits. This program replaces fdatasync(2) to observe the syncs.
#include "manager/state/sqlite_state.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "manager/host_setup.h"
#include "sqlite/sqlite.h"
#include "tests/manager/prelude.h"
#include "tests/support/sanitized.h"

namespace {

std::mutex hook_mutex;
std::function<void(const std::string& path)> synced;  // called after each sync while it is set

int AfterSync(int result, int fd) {
  const std::lock_guard<std::mutex> lock(hook_mutex);
  if (synced) synced(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string());
  return result;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fdatasync(int fd) {
  static const auto next = Next<int (*)(int)>("fdatasync");
  return AfterSync(next(fd), fd);
}

int fsync(int fd) {
  static const auto next = Next<int (*)(int)>("fsync");
  return AfterSync(next(fd), fd);
}

}  // extern "C"

namespace mooring::manager {
namespace {

// Records every sync of this program during its lifetime.
class SyncHook {
 public:
  explicit SyncHook(std::function<void(const std::string& path)> callback) {
    const std::lock_guard<std::mutex> lock(hook_mutex);
    synced = std::move(callback);
  }
  SyncHook(const SyncHook&) = delete;
  SyncHook& operator=(const SyncHook&) = delete;
  ~SyncHook() {
    const std::lock_guard<std::mutex> lock(hook_mutex);
    synced = nullptr;
  }
};

std::string ReadFile(const std::string& path) {
  std::string content(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

class SqliteStateTest : public ::testing::Test {
 protected:
  std::string Path() const { return directory_ / "state.db"; }

  std::unique_ptr<State> Open() { return Open(Path()); }
  static std::unique_ptr<State> Open(const std::string& path) {
    auto opened = OpenSqliteState(path);
    EXPECT_OK(opened);
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  static void Commit(State& state, const std::string& key, const std::string& value, bool may_be_lost) {
    const Durability durability = may_be_lost ? Durability::kOrdered : Durability::kSynced;
    ASSERT_OK(state.Commit({.compares = {}, .puts = {{key, value}}, .deletes = {}, .durability = durability}));
  }

  TempDir directory_;
};

TEST_F(SqliteStateTest, RefusesASecondProcess) {
  auto first = Open();
  EXPECT_THAT(OpenSqliteState(Path()), FailsWith(Code::kFailedPrecondition, "another manager has"));
  first.reset();
  EXPECT_OK(OpenSqliteState(Path()));
}

TEST_F(SqliteStateTest, FilesArePrivate) {
  const auto state = Open();
  Commit(*state, "shared/secrets/default/db", "secret", false);
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    const auto mode = fs::status(Path() + suffix).permissions();
    EXPECT_EQ(mode & fs::perms::all, fs::perms::owner_read | fs::perms::owner_write) << suffix;
  }
}

TEST_F(SqliteStateTest, RefusesANewerFormat) {
  Open();
  SQLite::Database(Path(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 2");
  EXPECT_THAT(OpenSqliteState(Path()), FailsWith(Code::kFailedPrecondition, "that wrote it"));
}

TEST_F(SqliteStateTest, ErrorOfADamagedFileSaysWhatToDo) {
  WriteFile(Path(), std::string(8192, 'x'));
  EXPECT_THAT(OpenSqliteState(Path()), FailsWith(Code::kInternal, "the file is damaged. Stop the manager"));
}

TEST_F(SqliteStateTest, FindsADamagedPageAtTheStart) {
  {
    const auto state = Open();
    for (int i = 0; i < 200; ++i) Commit(*state, "key" + std::to_string(i), std::string(200, 'v'), true);
  }
  SQLite::Database(Path(), SQLite::OPEN_READWRITE).exec("PRAGMA wal_checkpoint(TRUNCATE)");
  std::string content = ReadFile(Path());
  content.replace(content.size() - 4096, 4096, 4096, '\x5A');
  WriteFile(Path(), content);
  EXPECT_THAT(OpenSqliteState(Path()), FailsWith(Code::kInternal, "put a copy of it back"));
}

TEST_F(SqliteStateTest, RefusesAStateThatWasLost) {
  const auto open = [this] { return OpenSqliteState(Path(), [this] { return CheckBeginsEmpty(directory_.path()); }); };
  const auto lose = [this] {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(Path() + suffix);
  };
  ASSERT_OK(open());
  lose();
  WriteFile(Path(), "");
  ASSERT_OK(open()) << "a first start that was cut short";
  ASSERT_OK(KeepHostName(directory_.path(), "host-1"));
  ASSERT_OK(open());
  lose();
  EXPECT_THAT(open(), FailsWith(Code::kFailedPrecondition, "missing or empty"));
  EXPECT_FALSE(fs::exists(Path())) << "a refused start leaves nothing behind";
  WriteFile(Path(), "");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(open(), FailsWith(Code::kFailedPrecondition, "docs/backup.md"));
  }
  fs::remove(directory_ / "host");
  EXPECT_OK(open()) << "begun anew on purpose";
}

TEST_F(SqliteStateTest, ErrorNamesAMissingDirectory) {
  EXPECT_THAT(OpenSqliteState(directory_ / "none/state.db"), FailsWith(Code::kNotFound, "none/state.db"));
}

TEST_F(SqliteStateTest, SyncsOncePerDurableCommit) {
  const auto state = Open();
  Commit(*state, "first", "the log's head is synced with the first commit of each log", false);
  int syncs = 0;
  const SyncHook hook([&](const std::string&) { ++syncs; });
  for (int i = 0; i < 10; ++i) {
    Commit(*state, "a", std::to_string(i), true);
    EXPECT_EQ(std::exchange(syncs, 0), 0);
    Commit(*state, "b", std::to_string(i), false);
    EXPECT_EQ(std::exchange(syncs, 0), 1);
    (void)state->Get("a");
    (void)state->List("");
    EXPECT_EQ(syncs, 0);
  }
}

// Opens the state after a power cut that left `file` and the first part `log` of its log. Each commit made one key, so
// a prefix of the commits has as many keys as revisions.
std::int64_t LastAfterPowerCut(const std::string& path, const std::string& file, const std::string& log) {
  fs::remove(path + "-shm");
  WriteFile(path, file);
  WriteFile(path + "-wal", log);
  SQLite::Database database(path, SQLite::OPEN_READWRITE);
  database.exec("PRAGMA synchronous = OFF");
  EXPECT_EQ(database.execAndGet("PRAGMA quick_check(1)").getString(), "ok");
  const std::int64_t last = database.execAndGet("SELECT last FROM revision").getInt64();
  EXPECT_EQ(database.execAndGet("SELECT COUNT(*) FROM state").getInt64(), last);
  EXPECT_EQ(database.execAndGet("SELECT MAX(modified) FROM state").getInt64(), last);
  return last;
}

// Cuts the power at several moments. Each file is as at its last sync; nothing, half or all is left of the later writes
// to the log.
TEST_F(SqliteStateTest, PowerCutLeavesAPrefixOfTheCommits) {
  const std::string log_path = Path() + "-wal", after = directory_ / "after.db";
  const auto state = Open();
  std::map<std::string, std::string> durable = {{Path(), ReadFile(Path())}, {log_path, ReadFile(log_path)}};
  int moved = 0;
  const SyncHook hook([&](const std::string& path) {
    if (path.rfind(Path(), 0) != 0) return;
    durable[path] = ReadFile(path);
    if (path == Path()) ++moved;
  });
  const std::string value(3000, 'v');
  std::int64_t least = 0;
  for (int i = 1; i <= 700; ++i) {
    const bool may_be_lost = i % 5 != 0;
    Commit(*state, "key" + std::to_string(i), value, may_be_lost);
    if (!may_be_lost) least = i;
    if (i % 17 != 0) continue;
    const std::string log = ReadFile(log_path);
    const std::size_t synced_size = durable[log_path].size();
    EXPECT_GE(LastAfterPowerCut(after, durable[Path()], durable[log_path]), least);
    EXPECT_GE(LastAfterPowerCut(after, durable[Path()], log.substr(0, (synced_size + log.size()) / 2)), least);
    EXPECT_EQ(LastAfterPowerCut(after, durable[Path()], log), i);
  }
  EXPECT_GE(moved, 2) << "the log was never moved into the file";
}

// 3,000 claims of 300 bytes are the load of a busy host.
TEST_F(SqliteStateTest, ListsThreeThousandRecordsInMilliseconds) {
  const auto state = Open();
  Transaction all;
  for (int i = 0; i < 3000; ++i)
    all.puts.push_back({"shared/claims/default/" + std::to_string(i), std::string(300, 'v')});
  ASSERT_OK(state->Commit(all));
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(state->List("shared/")->values, SizeIs(3000));
    best = std::min(best, std::chrono::steady_clock::now() - begin);
  }
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(best).count();
  RecordProperty("list_us", static_cast<int>(us));
  EXPECT_LT(us, mooring::testing::kSanitized ? 10'000'000 : 100'000) << "a few ms where nothing else runs";
}

}  // namespace
}  // namespace mooring::manager
