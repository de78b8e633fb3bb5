#include "tests/crash/subject.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "tests/support/kernel.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

// Of a file of several blocks, or the head of a device.
const std::string& Data() {
  static const std::string data = [] {
    std::string text;
    for (int i = 0; text.size() < 40'000; ++i) text += "line " + std::to_string(i) + "\n";
    return text;
  }();
  return data;
}

std::string HeadOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(Data().size(), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

// A write to a frozen one would wait for ever: ioctl_fsfreeze says EINVAL of one that is not.
void ExpectNotFrozen(const std::string& mounted) {
  const UniqueFd fd(::open(mounted.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(fd.ok()) << mounted;
  EXPECT_NE(::ioctl(fd.get(), FITHAW, 0), 0) << mounted << " was left frozen";
}

bool Soon(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

Subject::Subject(Driver& driver, const TempDir& dir, VolumeKind kind)
    : driver_(driver), dir_(dir), kind_(std::move(kind)) {
  fs::create_directories(staging());
  fs::create_directories(fs::path(target()).parent_path());
}

absl::Status Subject::Create() {
  csi::v1::CreateVolumeRequest request;
  request.set_name("subject");
  request.mutable_capacity_range()->set_required_bytes(kind_.bytes);
  *request.add_volume_capabilities() = kind_.capability;
  request.mutable_parameters()->insert(kind_.parameters.begin(), kind_.parameters.end());
  const auto answer = driver_.Send(request);
  if (answer.status.ok()) id_ = answer->volume().volume_id();
  return answer.status;
}

absl::Status Subject::Delete() { return driver_.Delete(id_).status; }
absl::Status Subject::Attach() { return driver_.Attach(id_, "node-1", kind_.capability, kind_.read_only).status; }
absl::Status Subject::Detach() { return driver_.Detach(id_, "node-1").status; }
absl::Status Subject::Grow() { return driver_.Grow(id_, 2 * kind_.bytes).status; }
absl::Status Subject::Stage() { return driver_.Stage(id_, staging(), kind_.capability).status; }
absl::Status Subject::Unstage() { return driver_.Unstage(id_, staging()).status; }
absl::Status Subject::Unpublish() { return driver_.Unpublish(id_, target()).status; }
absl::Status Subject::NodeExpand() { return driver_.NodeExpand(id_, staging(), 2 * kind_.bytes).status; }

absl::Status Subject::Publish() {
  return driver_.Publish(id_, staging(), target(), kind_.capability, kind_.read_only).status;
}

std::string Subject::fs_type() const {
  const std::string& type = kind_.capability.mount().fs_type();
  return type.empty() ? "ext4" : type;
}

std::string Subject::template_image() const { return dir_ / (fs_type() + ".template"); }

void Subject::IsCreated() {
  ASSERT_OK(Create());
  ASSERT_OK(Attach());
}

// By the plugin itself, once a test: to format is the slowest of all.
void Subject::MakeTemplate() {
  ASSERT_OK(Stage());
  std::ofstream(staging() + "/data") << Data();
  ASSERT_OK(Unstage());
  ExpectLoopsGone();
  ASSERT_EQ(Run("cp --sparse=always " + image() + " " + template_image()), 0);
}

void Subject::IsFormatted() {
  IsCreated();
  if (::testing::Test::HasFatalFailure()) return;
  if (block()) {
    ASSERT_EQ(TryWrite(image(), Data()), 0);
  } else if (!fs::exists(template_image())) {
    MakeTemplate();
  } else {
    ASSERT_EQ(Run("cp --sparse=always " + template_image() + " " + image()), 0);  // into the same file
  }
  has_data_ = true;
}

void Subject::IsMarked() {
  IsFormatted();
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(Run("debugfs -w -R 'ssv state 2' " + image() + " 2>/dev/null"), 0);
}

void Subject::IsStaged() {
  IsFormatted();
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_OK(Stage());
}

void Subject::IsPublished() {
  IsStaged();
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_OK(Publish());
}

void Subject::ExpectData(const std::string& path) const {
  EXPECT_TRUE(!has_data_ || HeadOf(path) == Data()) << "data lost at " << path;
}

void Subject::ExpectStaged() const {
  if (block()) {
    const std::vector<LoopLine> loops = LoopsOver(image());
    ASSERT_EQ(loops.size(), 1U) << "devices of " << id_;
    ExpectData(loops.front().device);
    return;
  }
  ASSERT_TRUE(MountAt(staging())) << "nothing is staged";
  ExpectNotFrozen(staging());
  ExpectData(staging() + "/data");
  EXPECT_EQ(TryWrite(staging() + "/more", "x"), 0);
}

void Subject::ExpectPublished() const {
  ASSERT_TRUE(MountAt(target())) << "nothing is published";
  const std::string written = block() ? target() : target() + "/data";
  ExpectData(written);
  // The same byte: the data stay as they are.
  const int refusal = block() ? EPERM : EROFS;
  EXPECT_EQ(TryWrite(written, Data().substr(0, 1)), kind_.read_only ? refusal : 0);
}

void Subject::ExpectNotPublished() const {
  EXPECT_TRUE(MountsAt(target()).empty());
  EXPECT_FALSE(fs::exists(fs::symlink_status(target()))) << "the target itself is left";
}

void Subject::ExpectNotStaged() const {
  EXPECT_TRUE(MountsAt(staging()).empty());
  EXPECT_TRUE(fs::is_empty(staging()));
  ExpectLoopsGone();
}

void Subject::ExpectAttached(bool attached) {
  const auto answer = driver_.List();
  EXPECT_OK(answer);
  ASSERT_EQ(answer->entries_size(), 1);
  EXPECT_EQ(answer->entries(0).status().published_node_ids_size(), attached ? 1 : 0);
}

void Subject::ExpectDeleted() {
  EXPECT_EQ(driver_.List()->entries_size(), 0);
  EXPECT_FALSE(fs::exists(image()));
  has_data_ = false;
}

void Subject::ExpectBytes(std::int64_t bytes) {
  csi::v1::ControllerGetVolumeRequest request;
  request.set_volume_id(id_);
  const auto answer = driver_.Send(request);
  EXPECT_OK(answer);
  EXPECT_EQ(answer->volume().capacity_bytes(), bytes);
  EXPECT_EQ(fs::file_size(image()), static_cast<std::uintmax_t>(bytes));
}

void Subject::ExpectRoom(std::int64_t bytes) {
  struct statvfs status = {};
  if (block()) {
    const UniqueFd fd(::open(LoopsOver(image()).at(0).device.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::lseek(fd.get(), 0, SEEK_END), bytes);
  } else if (::statvfs(staging().c_str(), &status) == 0) {
    const double has = static_cast<double>(status.f_blocks) * static_cast<double>(status.f_frsize);
    EXPECT_GT(has, 0.7 * static_cast<double>(bytes));  // the filesystem's own records are not counted
  }
}

void Subject::ExpectLoopsGone() const {
  EXPECT_TRUE(Soon([this] { return LoopsOver(image()).empty(); })) << "a loop device over " << image() << " is left";
}

void Subject::ExpectWhole() const {
  if (block()) return ExpectData(image());
  const std::string check = fs_type() == "xfs" ? "xfs_repair -n " : "e2fsck -fn ";
  EXPECT_EQ(Run(check + image() + " >/dev/null 2>&1"), 0) << check << image();
}

// Whoever made it may not have been told its id, and what was to go may have gone.
bool Subject::IsListed() {
  const auto listed = driver_.List();
  EXPECT_OK(listed);
  EXPECT_LE(listed->entries_size(), 1);
  if (listed->entries_size() == 0) return false;
  id_ = listed->entries(0).volume().volume_id();
  return true;
}

void Subject::TakeDown() {
  if (!IsListed()) return;
  EXPECT_OK(Unpublish());
  if (has_data_) {
    EXPECT_OK(Stage());
    ExpectStaged();
  }
  EXPECT_OK(Unstage());
  ExpectNotPublished();
  ExpectNotStaged();
  if (has_data_) ExpectWhole();
  EXPECT_OK(Detach());
  EXPECT_OK(Delete());
}

}  // namespace mooring::testing
