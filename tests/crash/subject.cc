#include "tests/crash/subject.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "base/file/unique_fd.h"
#include "tests/support/kernel.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kInline[] = "csi-subject";

// The content of a file of several blocks, or of the first blocks of a device.
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

// A write to a frozen filesystem would wait for ever. FITHAW fails with EINVAL if the filesystem is not frozen.
void ExpectNotFrozen(const std::string& mounted) {
  const UniqueFd fd(::open(mounted.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(fd.ok()) << mounted;
  EXPECT_NE(::ioctl(fd.get(), FITHAW, 0), 0) << mounted << " was left frozen";
}

}  // namespace

Subject::Subject(Driver& driver, const TempDir& dir, VolumeKind kind, std::string name)
    : driver_(driver),
      dir_(dir),
      kind_(std::move(kind)),
      name_(std::move(name)),
      place_(name_ == "subject" ? "" : "-" + name_),
      snapshots_(driver, fs::exists(dir / "subvolumes") ? dir / "subvolumes" : dir / "state/volumes", Data()) {
  fs::create_directories(staging());
  fs::create_directories(fs::path(target()).parent_path());
}

Subject& Subject::Beside() {
  if (!beside_) beside_ = std::make_unique<Subject>(driver_, dir_, kind_, name_ + "-beside");
  return *beside_;
}

absl::Status Subject::Create() {
  const auto answer =
      driver_.Send(source_.empty() ? CreateRequest(name_, kind_.capability, kind_.bytes, kind_.parameters)
                                   : CopyRequest(name_, source_, kind_.capability, kind_.bytes, kind_.parameters));
  if (answer.status.ok()) id_ = answer->volume().volume_id();
  return answer.status;
}

absl::Status Subject::CreateFrom(const std::string& source) {
  source_ = source;
  has_data_ = true;
  return Create();
}

absl::Status Subject::Modify() {
  csi::v1::ControllerModifyVolumeRequest request;
  request.set_volume_id(id_);
  request.mutable_mutable_parameters()->insert({"readAhead", "1MiB"});
  request.mutable_mutable_parameters()->insert({"noatime", "true"});
  return driver_.Send(request).status;
}

absl::Status Subject::PublishInline() {
  inline_ = true;
  csi::v1::NodePublishVolumeRequest request = PublishRequest(kInline, "", target(), kind_.capability);
  request.mutable_volume_context()->insert({"csi.storage.k8s.io/ephemeral", "true"});
  request.mutable_volume_context()->insert({"size", std::to_string(kind_.bytes)});
  return driver_.Send(request).status;
}

absl::Status Subject::UnpublishInline() { return driver_.Unpublish(kInline, target()).status; }

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

void Subject::IsNew() { ASSERT_OK(Create()); }

void Subject::IsCreated() {
  ASSERT_OK(Create());
  ASSERT_OK(Attach());
}

void Subject::WriteData() {
  std::ofstream(staging() + "/data") << Data();
  fs::create_directories(staging() + "/tree/below");
  for (const char* leaf : {"/tree/one", "/tree/below/two"}) std::ofstream(staging() + leaf) << leaf;
}

// The plugin formats a volume once in each test, because formatting is slow. Later rounds copy that image.
void Subject::MakeTemplate() {
  ASSERT_OK(Stage());
  WriteData();
  ASSERT_OK(Unstage());
  ExpectLoopsGone();
  ASSERT_EQ(Run("cp --sparse=always " + image() + " " + template_image()), 0);
}

void Subject::IsFormatted() {
  IsCreated();
  if (::testing::Test::HasFatalFailure()) return;
  if (memory()) return;  // a volume in memory is empty until it is staged
  if (block()) {
    ASSERT_EQ(TryWrite(image(), Data()), 0);
  } else if (plain()) {
    ASSERT_OK(Stage());
    WriteData();
    ASSERT_OK(Unstage());
  } else if (!fs::exists(template_image())) {
    MakeTemplate();
  } else {
    ASSERT_EQ(Run("cp --sparse=always " + template_image() + " " + image()),
              0);  // keeps the file, so that its owner and inode stay
  }
  has_data_ = true;
}

void Subject::IsDetached() {
  IsFormatted();
  ASSERT_OK(Detach());
}

void Subject::IsPublishedInline() { ASSERT_OK(PublishInline()); }

void Subject::IsMarked() {
  IsFormatted();
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(Run("debugfs -w -R 'ssv state 2' " + image() + " 2>/dev/null"), 0);
}

void Subject::IsStaged() {
  IsFormatted();
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_OK(Stage());
  if (memory()) WriteData();
  has_data_ = true;
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
  // Writes the byte that is already there.
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
  const auto answer = driver_.Get(id_);
  EXPECT_OK(answer);
  EXPECT_EQ(answer->volume().capacity_bytes(), bytes);
  EXPECT_TRUE(plain() || fs::file_size(image()) == static_cast<std::uintmax_t>(bytes)) << image();
}

void Subject::ExpectCreated() { ExpectBytes(kind_.bytes); }

void Subject::ExpectModified() {
  ASSERT_OK(Stage());
  const std::vector<LoopLine> loops = LoopsOver(image());
  ASSERT_EQ(loops.size(), 1U);
  const std::string name = fs::path(loops.front().device).filename();
  EXPECT_EQ(ReadFile("/sys/block/" + name + "/queue/read_ahead_kb"), "1024\n");
  const auto staged = MountAt(staging()), published = MountAt(target());
  EXPECT_TRUE(staged && staged->Has("noatime"));
  EXPECT_TRUE(!published || published->Has("noatime"));
}

void Subject::ExpectPublishedInline() {
  EXPECT_EQ(MountsAt(target()).size(), 1U);
  EXPECT_EQ(TryWrite(target() + "/more", "x"), 0);
  EXPECT_EQ(driver_.List()->entries_size(), 0) << "the orchestrator does not see it";
  const fs::directory_iterator images(dir_ / "state/volumes");
  EXPECT_EQ(std::distance(begin(images), end(images)), 1) << "a volume has one image";
}

void Subject::ExpectRoom(std::int64_t bytes) {
  struct statvfs status = {};
  if (block()) {
    const UniqueFd fd(::open(LoopsOver(image()).at(0).device.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::lseek(fd.get(), 0, SEEK_END), bytes);
  } else if (::statvfs(staging().c_str(), &status) == 0) {
    const double has = static_cast<double>(status.f_blocks) * static_cast<double>(status.f_frsize);
    EXPECT_GT(has, 0.7 * static_cast<double>(bytes));  // f_blocks does not count the filesystem's own records
  }
}

void Subject::ExpectLoopsGone() const {
  EXPECT_TRUE(WaitUntil([this] { return LoopsOver(image()).empty(); }, std::chrono::seconds(30)))
      << "a loop device over " << image() << " is left";
}

void Subject::ExpectWhole() const {
  if (block()) return ExpectData(image());
  if (plain()) return;
  static const std::map<std::string, std::string> kChecks = {
      {"ext4", "e2fsck -fn "}, {"xfs", "xfs_repair -n "}, {"btrfs", "btrfs check "}};
  const std::string& check = kChecks.at(fs_type());
  EXPECT_EQ(Run(check + image() + " >/dev/null 2>&1"), 0) << check << image();
}

// Finds the volume also if the call that made it failed, or if it is deleted already.
bool Subject::IsListed() {
  const auto listed = driver_.List();
  EXPECT_OK(listed);
  std::vector<std::string> mine;
  for (const auto& entry : listed->entries()) {
    const csi::v1::Volume& volume = entry.volume();
    const bool alike = volume.has_content_source() != source_.empty();
    if (id_.empty() ? alike : volume.volume_id() == id_) mine.push_back(volume.volume_id());
  }
  EXPECT_LE(mine.size(), 1U);
  if (!mine.empty()) id_ = mine.front();
  return !mine.empty();
}

void Subject::TakeDown() {
  if (inline_) TakeDownInline();
  if (beside_) beside_->TakeDown();
  if (IsListed()) TakeDownVolume();
  snapshots_.TakeDown();  // they outlive their volume
}

// The plugin deletes an ephemeral volume by itself if it is mounted nowhere.
void Subject::TakeDownInline() {
  EXPECT_TRUE(MountAt(target()) || fs::is_empty(dir_ / "state/volumes")) << "an image without a mount is left";
  EXPECT_OK(UnpublishInline());
}

void Subject::TakeDownVolume() {
  EXPECT_OK(Unpublish());
  if (memory() && !MountAt(staging())) has_data_ = false;
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
