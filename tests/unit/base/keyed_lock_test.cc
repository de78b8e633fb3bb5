#include "base/keyed_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/file/unique_fd.h"
#include "base/hash.h"
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
  ASSERT_OK(locks->AddFile(directory_ + "/late/lock", [](const std::string& key) { return key.starts_with("s"); },
                           {.answers = [&] { return answers; }}));
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

int DescriptorOf(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error) == path) return std::stoi(entry.path().filename());
  }
  return -1;
}

bool AllKeys(const std::string&) { return true; }

// A file on a server that can fall silent: the calls of this process for it then fail.
class LeftLocksTest : public SharedKeyedLocksTest {
 protected:
  LeftLocksTest() {
    EXPECT_OK(locks_->AddFile(path_, AllKeys,
                              {.answers = [] { return absl::OkStatus(); }, .lock_left = [this] { ++left_; }}));
    EXPECT_OK(locks_->Acquire("first", "volume", In(seconds(1))));  // opens it
    file_ = DescriptorOf(path_);
    server_ = UniqueFd(::fcntl(file_, F_DUPFD_CLOEXEC, 0));
    other_ = *KeyedLocks::Shared(directory_ + "/other");
    EXPECT_OK(other_->AddFile(path_, AllKeys));
  }
  void FallSilent() {
    const UniqueFd silent(::open("/", O_PATH | O_CLOEXEC));
    ASSERT_GE(::dup3(silent.get(), file_, O_CLOEXEC), 0);
  }
  void Answer() { ASSERT_GE(::dup3(server_.get(), file_, O_CLOEXEC), 0); }
  absl::Status AcquireElsewhere() { return other_->Acquire("s", "volume", In(milliseconds(10))).status(); }

  const std::string path_ = directory_ + "/pool";
  std::unique_ptr<KeyedLocks> locks_ = Process(), other_;  // of two hosts
  int file_ = -1;
  UniqueFd server_;
  std::atomic<int> left_ = 0;
};

TEST_F(LeftLocksTest, ALockThatCouldNotEndEndsLater) {
  {
    const auto held = locks_->Acquire("s", "volume", In(seconds(1)));
    ASSERT_OK(held);
    FallSilent();
  }
  EXPECT_EQ(left_, 1);
  EXPECT_FALSE(locks_->EndLeftLocks(AllKeys).ok());
  Answer();
  EXPECT_OK(locks_->EndLeftLocks([](const std::string& key) { return key != "s"; })) << "of another pool";
  EXPECT_TRUE(absl::IsAborted(AcquireElsewhere()));
  EXPECT_OK(locks_->EndLeftLocks(AllKeys));
  EXPECT_OK(AcquireElsewhere());
}

// The server sets the lock, and its answer is lost.
TEST_F(LeftLocksTest, ALockThatMayHaveBegunEndsLater) {
  struct flock byte = {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(HashOf("s") >> 2U);
  byte.l_len = 1;
  ASSERT_EQ(::fcntl(server_.get(), F_OFD_SETLK, &byte), 0);
  FallSilent();
  EXPECT_FALSE(locks_->Acquire("s", "volume", In(seconds(1))).ok());
  EXPECT_EQ(left_, 1);
  Answer();
  EXPECT_TRUE(absl::IsAborted(AcquireElsewhere()));
  EXPECT_OK(locks_->EndLeftLocks(AllKeys));
  EXPECT_OK(AcquireElsewhere());
}

TEST_F(LeftLocksTest, ALeftLockEndsWhileAnotherPluginOfTheHostWaitsForIt) {
  {
    const auto held = locks_->Acquire("s", "volume", In(seconds(1)));
    FallSilent();
  }
  Answer();
  const auto plugin = Process();
  ASSERT_OK(plugin->AddFile(path_, AllKeys));
  std::thread waiting([&] { EXPECT_OK(plugin->Acquire("s", "volume", In(seconds(20)))); });
  std::this_thread::sleep_for(milliseconds(50));  // now it has the key in the file of the host
  EXPECT_OK(locks_->EndLeftLocks(AllKeys));
  waiting.join();
}

TEST_F(LeftLocksTest, ALockInUseIsNotEnded) {
  {
    const auto held = locks_->Acquire("s", "volume", In(seconds(1)));
    FallSilent();
  }
  Answer();
  const auto held = locks_->Acquire("s", "volume", In(seconds(1)));
  ASSERT_OK(held);
  EXPECT_TRUE(absl::IsAborted(locks_->EndLeftLocks(AllKeys)));
  EXPECT_TRUE(absl::IsAborted(AcquireElsewhere()));
}

// The directory was unmounted, and another address has the same one, or what was there long ago.
TEST_F(LeftLocksTest, AFileWhoseDirectoryWasMountedAnewIsOpenedAnew) {
  {
    const auto held = locks_->Acquire("s", "volume", In(seconds(1)));
    ASSERT_OK(held);
    EXPECT_OK(locks_->ReopenFile(path_));
    EXPECT_TRUE(absl::IsAborted(AcquireElsewhere())) << "it is the same file";
  }
  std::filesystem::rename(path_, path_ + "-before");
  EXPECT_OK(locks_->ReopenFile(path_));
  const auto held = locks_->Acquire("s", "volume", In(seconds(1)));
  EXPECT_OK(AcquireElsewhere()) << "it has the file of before";
  EXPECT_OK(other_->ReopenFile(path_));
  EXPECT_TRUE(absl::IsAborted(AcquireElsewhere()));
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
