#include "base/keyed_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/file/unique_fd.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

KeyedLocks::Clock::time_point In(milliseconds time) { return KeyedLocks::Clock::now() + time; }

TEST(KeyedLocksTest, SameKeyWaits) {
  KeyedLocks locks;
  std::optional<KeyedLocks::Hold> first(*locks.Acquire("a", "volume", In(seconds(1))));
  std::atomic<bool> second = false;
  std::thread waiting([&] {
    EXPECT_OK(locks.Acquire("a", "volume", In(seconds(30))));
    second = true;
  });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(second);
  first.reset();
  waiting.join();
  EXPECT_TRUE(second);
}

TEST(KeyedLocksTest, AnotherKeyNeverWaits) {
  KeyedLocks locks;
  const auto held = locks.Acquire("a", "volume", In(seconds(1)));
  EXPECT_OK(locks.Acquire("b", "volume", KeyedLocks::Clock::now()));
}

TEST(KeyedLocksTest, DeadlineAbortsAWaiter) {
  KeyedLocks locks;
  const auto held = locks.Acquire("a", "volume", In(seconds(1)));
  const auto before = KeyedLocks::Clock::now();
  const absl::Status status = locks.Acquire("a", "volume", In(milliseconds(30))).status();
  EXPECT_GE(KeyedLocks::Clock::now() - before, milliseconds(30));
  ASSERT_TRUE(absl::IsAborted(status));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("volume 'a'"), HasSubstr("again")));
}

TEST(KeyedLocksTest, KeyIsUsableAfterAnAbortedWait) {
  KeyedLocks locks;
  {
    const auto held = locks.Acquire("a", "volume", In(seconds(1)));
    EXPECT_FALSE(locks.Acquire("a", "volume", In(milliseconds(1))).ok());
  }
  EXPECT_OK(locks.Acquire("a", "volume", KeyedLocks::Clock::now()));
}

TEST(KeyedLocksTest, MovedHoldIsReleasedOnce) {
  KeyedLocks locks;
  {
    KeyedLocks::Hold first = *locks.Acquire("a", "volume", In(seconds(1)));
    const KeyedLocks::Hold moved = std::move(first);
    EXPECT_FALSE(locks.Acquire("a", "volume", In(milliseconds(1))).ok());
  }
  EXPECT_OK(locks.Acquire("a", "volume", KeyedLocks::Clock::now()));
}

class SharedKeyedLocksTest : public ::testing::Test {
 protected:
  SharedKeyedLocksTest() {
    std::string pattern = ::testing::TempDir() + "keyed_lock_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~SharedKeyedLocksTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<KeyedLocks> Process() { return *KeyedLocks::Shared(directory_ + "/lock"); }

  std::string directory_;
};

TEST_F(SharedKeyedLocksTest, ExcludesOtherProcesses) {
  const auto here = Process(), there = Process();
  std::optional<KeyedLocks::Hold> hold(*here->Acquire("a", "volume", In(seconds(1))));
  EXPECT_TRUE(absl::IsAborted(there->Acquire("a", "volume", In(milliseconds(30))).status()));
  EXPECT_OK(there->Acquire("b", "volume", KeyedLocks::Clock::now()));
  std::thread waiter([&] { EXPECT_OK(there->Acquire("a", "volume", In(seconds(10)))); });
  std::this_thread::sleep_for(milliseconds(20));
  hold.reset();
  waiter.join();
  EXPECT_OK(here->Acquire("a", "volume", In(seconds(1))));
}

TEST_F(SharedKeyedLocksTest, ReleaseKeepsOtherKeys) {
  const auto here = Process(), there = Process();
  const auto kept = here->Acquire("a", "volume", In(seconds(1)));
  { const auto gone = here->Acquire("b", "volume", In(seconds(1))); }
  EXPECT_TRUE(absl::IsAborted(there->Acquire("a", "volume", In(milliseconds(5))).status()));
  EXPECT_OK(there->Acquire("b", "volume", In(seconds(1))));
}

TEST_F(SharedKeyedLocksTest, KilledProcessReleasesItsLocks) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto locks = Process();
    const auto hold = locks->Acquire("a", "volume", In(seconds(1)));
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_OK(Process()->Acquire("a", "volume", KeyedLocks::Clock::now()));
}

TEST_F(SharedKeyedLocksTest, StoppingEndsAllWaiting) {
  const auto here = Process(), there = Process();
  const auto hold = here->Acquire("a", "volume", In(seconds(1)));
  std::thread in_process([&] { EXPECT_TRUE(absl::IsUnavailable(here->Acquire("a", "v", In(seconds(10))).status())); });
  std::thread in_other([&] { EXPECT_TRUE(absl::IsUnavailable(there->Acquire("a", "v", In(seconds(10))).status())); });
  std::this_thread::sleep_for(milliseconds(20));
  const auto before = KeyedLocks::Clock::now();
  here->Stop();
  there->Stop();
  in_process.join();
  in_other.join();
  EXPECT_LT(KeyedLocks::Clock::now() - before, seconds(5));
}

TEST_F(SharedKeyedLocksTest, UnopenableFileIsNamed) {
  const absl::Status status = KeyedLocks::Shared(directory_ + "/missing/lock").status();
  EXPECT_NE(Message(status).find("missing/lock"), std::string::npos) << status;
}

// Two hosts have lock files of their own, and one in a directory that both mount.
TEST_F(SharedKeyedLocksTest, AddedFileHasItsKeysAlone) {
  const auto host = [this](const std::string& name) {
    auto locks = *KeyedLocks::Shared(directory_ + "/" + name);
    EXPECT_OK(locks->AddFile(directory_ + "/shared", [](const std::string& key) { return key.starts_with("s"); }));
    return locks;
  };
  const auto here = host("here"), there = host("there");
  auto shared = std::make_optional(here->Acquire("shared", "volume", In(milliseconds(10))));
  const auto own = here->Acquire("own", "volume", In(milliseconds(10)));
  EXPECT_TRUE(absl::IsAborted(there->Acquire("shared", "volume", In(milliseconds(10))).status()));
  EXPECT_OK(there->Acquire("own", "volume", In(milliseconds(10))));
  shared.reset();
  EXPECT_OK(there->Acquire("shared", "volume", In(milliseconds(10))));
}

// The file of a host that mounts its directory later, or whose file server is away.
TEST_F(SharedKeyedLocksTest, AFileThatDoesNotAnswerIsNotTouched) {
  const auto locks = Process();
  absl::Status answers = absl::UnavailableError("not mounted");
  ASSERT_OK(locks->AddFile(
      directory_ + "/late/lock", [](const std::string& key) { return key.starts_with("s"); }, [&] { return answers; }));
  EXPECT_TRUE(absl::IsUnavailable(locks->Acquire("s", "volume", In(seconds(1))).status()));
  {
    const auto here = locks->Acquire("s", "volume", In(seconds(1)), KeyedLocks::Among::kThisHost);
    ASSERT_OK(here);
    EXPECT_TRUE(absl::IsAborted(Process()->Acquire("s", "volume", In(milliseconds(10))).status()));
  }
  ASSERT_TRUE(std::filesystem::create_directory(directory_ + "/late"));
  answers = absl::OkStatus();
  EXPECT_OK(locks->Acquire("s", "volume", In(seconds(1))));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/late/lock"));
}

// A server that falls silent holds the process that locks there.
int DescriptorOf(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error) == path) return std::stoi(entry.path().filename());
  }
  return -1;
}

// As when the server falls silent while the key is held: the end of the lock does not reach it.
TEST_F(SharedKeyedLocksTest, ALockThatCouldNotEndEndsLater) {
  const std::string path = directory_ + "/pool";
  const auto all = [](const std::string&) { return true; };
  const auto locks = Process(), other = Process();
  ASSERT_OK(locks->AddFile(path, all));
  const int file = DescriptorOf(path);
  ASSERT_OK(other->AddFile(path, all));
  {
    auto held = locks->Acquire("s", "volume", In(seconds(1)));
    ASSERT_OK(held);
    const UniqueFd saved(::fcntl(file, F_DUPFD_CLOEXEC, 0)), silent(::open("/", O_PATH | O_CLOEXEC));
    ASSERT_GE(::dup3(silent.get(), file, O_CLOEXEC), 0);
    { const KeyedLocks::Hold released = *std::move(held); }
    EXPECT_FALSE(locks->EndLeftLocks().ok());
    ASSERT_GE(::dup3(saved.get(), file, O_CLOEXEC), 0);
  }
  EXPECT_TRUE(absl::IsAborted(other->Acquire("s", "volume", In(milliseconds(10))).status()));
  EXPECT_OK(locks->EndLeftLocks());
  EXPECT_OK(other->Acquire("s", "volume", In(seconds(1))));
}

TEST_F(SharedKeyedLocksTest, ALockOfThisHostIsNoneOfTheAddedFile) {
  const auto add = [this](KeyedLocks& locks) {
    EXPECT_OK(locks.AddFile(directory_ + "/shared", [](const std::string& key) { return key.starts_with("s"); }));
  };
  const auto host = Process(), other = KeyedLocks::Shared(directory_ + "/other").value();
  add(*host);
  add(*other);
  const auto there = other->Acquire("s", "volume", In(milliseconds(10)));
  ASSERT_OK(there);
  EXPECT_TRUE(absl::IsAborted(host->Acquire("s", "volume", In(milliseconds(10))).status()));
  const auto here = host->Acquire("s", "volume", In(milliseconds(10)), KeyedLocks::Among::kThisHost);
  ASSERT_OK(here);
  EXPECT_TRUE(absl::IsAborted(Process()->Acquire("s", "volume", In(milliseconds(10))).status()));
}

TEST(KeyedLocksTest, OnlyOneOfManyHoldsAKey) {
  KeyedLocks locks;
  std::atomic<int> inside = 0, done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto hold = locks.Acquire("a", "volume", In(seconds(60)));
        ASSERT_OK(hold);
        EXPECT_EQ(++inside, 1);
        --inside;
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 4000);
}

}  // namespace
}  // namespace mooring::testing
