#include "tests/kernel/helper/helper_test.h"

#include <signal.h>
#include <sys/wait.h>

namespace mooring::testing {
namespace {

// Redirects stderr of this process to a file. A program started meanwhile inherits it.
class StderrTo {
 public:
  explicit StderrTo(const std::string& path) : before_(::fcntl(2, F_DUPFD_CLOEXEC, 3)) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ::dup2(file.get(), 2);
  }
  StderrTo(const StderrTo&) = delete;
  StderrTo& operator=(const StderrTo&) = delete;
  ~StderrTo() { ::dup2(before_.get(), 2); }

 private:
  UniqueFd before_;
};

}  // namespace

bool Stopped(pid_t pid) { return StatusField(pid, "State").starts_with('T'); }

std::unique_ptr<HelperMounter> StartHelper(const HelperPolicy& policy) {
  auto spawner = HelperSpawner::Start(MOORING_MOUNTER_BINARY, {policy, "error", "text"});
  EXPECT_OK(spawner);
  auto helper = HelperMounter::Start(*std::move(spawner));
  EXPECT_OK(helper);
  return *std::move(helper);
}

void HelperProcessTest::SetUp() {
  // TearDown counts children. An earlier test in this process may have left one that is about to end.
  EXPECT_TRUE(Eventually([] { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }));
  Dir("volumes");
  Dir("csi");
  Dir("own");
  Dir("dirs");
}

void HelperProcessTest::TearDown() {
  for (const pid_t pid : seen_) {
    EXPECT_TRUE(Eventually([pid] { return !Runs(pid); })) << "still runs: " << pid << "\n" << HelperLog();
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
  EXPECT_EQ(errno, ECHILD);
  KernelTest::TearDown();
}

MountRequest HelperProcessTest::MountOfImage(const std::string& name, const std::string& target) const {
  MountRequest request = MountOf(Image(name), Target(target));
  request.label = "mooring:test";
  return request;
}

absl::StatusOr<HelperSpawner> HelperProcessTest::StartSpawner(const std::string& program) {
  const StderrTo log(Path("helper.log"));
  return HelperSpawner::Start(program, {{.roots = {Path("csi")},
                                         .sources = {Path("volumes")},
                                         .label_prefix = "mooring",
                                         .forbidden_trees = {Path("own")},
                                         .forbidden_places = {},
                                         .volume_directories = {Path("dirs")},
                                         .device_links = {Path("links/disk-*")},
                                         .fs_types = {"ext2", "f2fs", "proc"},
                                         .subvolume_pools = {Path("pool")},
                                         .sized_pools = {Path("sized")},
                                         .lvm_pools = {"mooring-test-group"},
                                         .encrypted_pools = {Path("encrypted")},
                                         .most_memory = 4 * kMiB},
                                        "info",
                                        "text"});
}

void HelperTest::SetUp() {
  HelperProcessTest::SetUp();
  absl::StatusOr<HelperSpawner> spawner = StartSpawner();
  ASSERT_OK(spawner);
  spawner_pid_ = spawner->pid();
  seen_.push_back(spawner_pid_);
  absl::StatusOr<std::unique_ptr<HelperMounter>> helper =
      HelperMounter::Start(*std::move(spawner), [this] { ++lost_; });
  ASSERT_OK(helper);
  helper_ = *std::move(helper);
  ASSERT_TRUE(EventuallyAnswers());  // and so the first one is there
  seen_.push_back(helper_->pid());
}

void HelperTest::TearDown() {
  if (helper_ != nullptr && helper_->pid() > 0) seen_.push_back(helper_->pid());
  helper_.reset();
  HelperProcessTest::TearDown();
}

void HelperGuardTest::SetUp() {
  HelperTest::SetUp();
  Ext4Image("volumes/a.img");
  Dir("outside");
  Ext4Image("outside/disk.img");
}

void HelperGuardTest::TearDown() {
  for (const MountLine& line : MountsBelow(dir_.path())) {
    EXPECT_TRUE(line.target.starts_with(Path("csi/"))) << line.target;
  }
  EXPECT_TRUE(NoLoopOver(Path("outside")));
  EXPECT_THAT(Entries(Path("outside")), ElementsAre("disk.img"));
  HelperTest::TearDown();
}

void HelperTest::KillHelper() {
  const pid_t pid = helper_->pid();
  ASSERT_GT(pid, 0);
  seen_.push_back(pid);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
}

bool HelperTest::AwaitNext(pid_t last) {
  return Eventually([&] { return helper_->pid() > 0 && helper_->pid() != last && helper_->Health().ok(); });
}

bool HelperTest::EventuallyAnswers() {
  return Eventually([this] { return helper_->Find(Path("csi")).ok(); });
}

}  // namespace mooring::testing
