#include "plugin/backends/image/image_backend.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_size.h"
#include "tests/fakes/fake_contents.h"
#include "tests/fakes/fake_loops.h"
#include "tests/support/hold_image.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

class ImageBackendTest : public ::testing::Test {
 protected:
  ImageBackendTest() { backend_ = std::make_unique<ImageBackend>(directory_ + "/volumes", loops_, contents_); }

  std::string Image(const std::string& id) const { return directory_ + "/volumes/" + id + ".img"; }
  std::string Formatting(const std::string& id) const { return Image(id) + ".formatting-0123abcd"; }

  std::string Copying(const std::string& id) const { return Image(id) + ".copying-0123abcd"; }

  std::string Created(std::uint64_t bytes = kMiB) {
    std::string id = NewVolumeId();
    const absl::Status status = backend_->Create({id, bytes});
    EXPECT_OK(status);
    return id;
  }

  std::vector<std::string> Files() const { return *EntriesOrNone(directory_ + "/volumes"); }

  const TempDir scratch_;
  const std::string directory_ = scratch_.path();
  FakeLoops loops_;
  FakeContents contents_;
  std::unique_ptr<ImageBackend> backend_;
};

TEST_F(ImageBackendTest, AnImageIsSparseAndPrivate) {
  const std::string id = Created(kGiB);
  struct stat image = {}, directory = {};
  ASSERT_EQ(::stat(Image(id).c_str(), &image), 0);
  ASSERT_EQ(::stat((directory_ + "/volumes").c_str(), &directory), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(image.st_size), kGiB);
  EXPECT_LT(static_cast<std::uint64_t>(image.st_blocks) * 512, kMiB);
  EXPECT_EQ(image.st_mode & 0777, 0600u);
  EXPECT_EQ(directory.st_mode & 0777, 0700u);
  const absl::StatusOr<VolumeLocation> found = backend_->Locate(id);
  ASSERT_OK(found);
  EXPECT_EQ(found->path, Image(id));
  EXPECT_EQ(found->bytes, kGiB);
}

TEST_F(ImageBackendTest, CreatingAgainFinishesOrFindsTheImage) {
  const std::string id = Created(kMiB);
  EXPECT_OK(backend_->Create({id, kMiB}));
  const std::string half = NewVolumeId();
  std::ofstream(Image(half)).flush();  // killed before the size was given
  EXPECT_OK(backend_->Create({half, 2 * kMiB}));
  EXPECT_EQ(backend_->Locate(half)->bytes, 2 * kMiB);
  EXPECT_FALSE(backend_->Create({id, 3 * kMiB}).ok());  // never resized behind anyone's back
  EXPECT_EQ(backend_->Locate(id)->bytes, kMiB);
}

TEST_F(ImageBackendTest, RefusesAVolumeLargerThanTheFreeSpace) {
  const std::uint64_t available = backend_->Capacity()->available;
  const absl::Status status = backend_->Create({NewVolumeId(), available + kTiB});
  ASSERT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr(directory_));
  EXPECT_THAT(Files(), IsEmpty());
  // Provisioning is thin: each volume fits, and the sum may not.
  const std::uint64_t most = backend_->Capacity()->largest_volume / 4 * 3 / kMiB * kMiB;
  if (most > 0) {
    Created(most);
    Created(most);
  }
}

TEST_F(ImageBackendTest, AFailureLeavesNoFile) {
  const std::string there = Created(kMiB);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 2 * kMiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status created = backend_->Create({NewVolumeId(), 4 * kMiB});
  const absl::Status grown = backend_->Grow(there, 4 * kMiB);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_TRUE(absl::IsOutOfRange(created)) << created;
  EXPECT_TRUE(absl::IsOutOfRange(grown)) << grown;
  EXPECT_THAT(Files(), ElementsAre(there + ".img"));
  EXPECT_EQ(backend_->Locate(there)->bytes, kMiB);
}

TEST_F(ImageBackendTest, ForeignIdsNeverBecomePaths) {
  std::ofstream(directory_ + "/precious.img") << "data";
  const std::string good = NewVolumeId();
  for (const std::string& id :
       {std::string(), std::string("../precious"), std::string("/etc/passwd"), std::string("vol-"), good + "0",
        good.substr(0, 35), "VOL-" + good.substr(4), "vol-" + std::string(32, 'g'), "vol-" + std::string(31, 'a') + "/",
        "vol-" + std::string(32, 'A'), good + std::string("\0", 1), good + "\n", std::string(1 << 20, 'a')}) {
    EXPECT_OK(backend_->Delete(id)) << id.substr(0, 50);
    EXPECT_TRUE(absl::IsNotFound(backend_->Locate(id).status()));
    EXPECT_TRUE(absl::IsNotFound(backend_->Grow(id, kMiB)));
    EXPECT_TRUE(absl::IsInternal(backend_->Create({id, kMiB})));
  }
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/precious.img"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ImageBackendTest, DeletesTheImageAndTheLeftoversOfAKilledMkfs) {
  const std::string id = Created();
  std::ofstream(Formatting(id)) << "half a filesystem";
  std::ofstream(Image(id) + ".formatting-89abcdef") << "an earlier half";
  std::ofstream(Image(id) + ".undo") << "of a growth that was cut short";
  const std::string other = Created();
  EXPECT_OK(backend_->Delete(id));
  EXPECT_THAT(Files(), ElementsAre(other + ".img"));
  std::ofstream(Formatting(id)) << "half a filesystem";
  EXPECT_OK(backend_->Delete(id));  // also where the image is gone
  EXPECT_THAT(Files(), ElementsAre(other + ".img"));
}

TEST_F(ImageBackendTest, AVolumeInUseIsNotDeletedAndTheDeviceIsNamed) {
  const std::string id = Created();
  loops_.Attach(Image(id), "/dev/loop3");
  const absl::Status status = backend_->Delete(id);
  ASSERT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("/dev/loop3"), HasSubstr("unstage")));
  EXPECT_OK(backend_->Locate(id));
}

TEST_F(ImageBackendTest, WaitsForALoopDeviceThatIsBeingReleased) {
  const std::string id = Created();
  loops_.Attach(Image(id), "/dev/loop3", 5);
  EXPECT_OK(backend_->Delete(id));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ImageBackendTest, DeletesNothingIfTheKernelDoesNotAnswer) {
  const std::string id = Created();
  loops_.failure = Internal("the kernel says no");
  EXPECT_TRUE(absl::IsInternal(backend_->Delete(id)));
  EXPECT_OK(backend_->Locate(id));
}

TEST_F(ImageBackendTest, AnImageThatAnotherProcessHoldsIsNotDeleted) {
  const std::string id = Created();
  {
    const UniqueFd stage = HoldImage(Image(id));
    EXPECT_TRUE(absl::IsAborted(backend_->Delete(id)));
    EXPECT_OK(backend_->Locate(id));
  }
  EXPECT_OK(backend_->Delete(id));
}

TEST_F(ImageBackendTest, FollowsNoSymbolicLinkInPlaceOfAnImage) {
  Created();
  const std::string id = NewVolumeId();
  const std::string elsewhere = directory_ + "/elsewhere";
  std::ofstream(elsewhere) << "data";
  std::filesystem::create_symlink(elsewhere, Image(id));
  EXPECT_FALSE(backend_->Create({id, kMiB}).ok());
  EXPECT_FALSE(backend_->Grow(id, kMiB).ok());
  EXPECT_FALSE(backend_->Locate(id).ok());
  EXPECT_FALSE(backend_->Delete(id).ok());
  EXPECT_EQ(std::filesystem::file_size(elsewhere), 4u);
  const std::string directory = NewVolumeId();
  std::filesystem::create_directory(Image(directory));
  EXPECT_FALSE(backend_->Delete(directory).ok());
  EXPECT_TRUE(std::filesystem::exists(Image(directory)));
}

TEST_F(ImageBackendTest, GrowingKeepsTheDataAndNeverShrinks) {
  const std::string id = Created(kMiB);
  std::fstream(Image(id)) << "data";
  EXPECT_OK(backend_->Grow(id, 2 * kMiB));
  EXPECT_EQ(backend_->Locate(id)->bytes, 2 * kMiB);
  EXPECT_OK(backend_->Grow(id, kMiB));
  EXPECT_EQ(backend_->Locate(id)->bytes, 2 * kMiB);
  std::string data;
  std::getline(std::ifstream(Image(id)) >> std::ws, data, '\0');
  EXPECT_EQ(data, "data");
  EXPECT_TRUE(absl::IsOutOfRange(backend_->Grow(id, backend_->Capacity()->available + kTiB)));
  EXPECT_EQ(backend_->Locate(id)->bytes, 2 * kMiB);
  EXPECT_TRUE(absl::IsNotFound(backend_->Grow(NewVolumeId(), kMiB)));
}

// Formatting replaces the file while it holds the lock, so Grow must use the new file.
TEST_F(ImageBackendTest, GrowingWaitsForTheLockAndThenOpensTheCurrentFile) {
  const std::string id = Created(kMiB);
  UniqueFd formatter = HoldImage(Image(id));
  std::thread grow([&] { EXPECT_OK(backend_->Grow(id, 2 * kMiB)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(backend_->Locate(id)->bytes, kMiB);
  std::ofstream(Formatting(id)) << std::string(kMiB, 'f');
  std::filesystem::rename(Formatting(id), Image(id));
  formatter.reset();
  grow.join();
  EXPECT_EQ(backend_->Locate(id)->bytes, 2 * kMiB);
  EXPECT_EQ(std::ifstream(Image(id)).get(), 'f');
}

TEST_F(ImageBackendTest, RemovesLeftoversUnlessAProgramIsFormatting) {
  const std::string killed = Created(), formatting = Created(), deleted = NewVolumeId();
  for (const std::string& id : {killed, formatting, deleted}) std::ofstream(Formatting(id)) << "half";
  for (const std::string& id : {killed, deleted}) std::ofstream(Image(id) + ".undo") << "undo";
  std::ofstream(directory_ + "/volumes/notes.formatting") << "not ours";
  const UniqueFd mkfs = HoldImage(Image(formatting));
  EXPECT_OK(backend_->Reconcile());
  EXPECT_FALSE(std::filesystem::exists(Formatting(killed)));
  EXPECT_FALSE(std::filesystem::exists(Formatting(deleted)));
  EXPECT_TRUE(std::filesystem::exists(Formatting(formatting)));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/volumes/notes.formatting"));
  EXPECT_TRUE(std::filesystem::exists(Image(killed)));
  EXPECT_TRUE(std::filesystem::exists(Image(killed) + ".undo"));
  EXPECT_FALSE(std::filesystem::exists(Image(deleted) + ".undo"));
}

TEST_F(ImageBackendTest, ACopyIsAnIndependentSnapshotOrVolume) {
  const std::string id = Created(kMiB), snapshot = NewSnapshotId(), clone = NewVolumeId();
  std::fstream(Image(id)) << "data";
  ASSERT_OK(backend_->Copy({{snapshot, Image(id), kMiB}, {clone, Image(id), 2 * kMiB, "ext4"}}));
  EXPECT_EQ(backend_->Locate(snapshot)->bytes, kMiB);
  EXPECT_EQ(backend_->Locate(clone)->bytes, 2 * kMiB);
  EXPECT_EQ(contents_.copied().front().back().renew_fs_type, "ext4");
  EXPECT_THAT(*backend_->Reconcile(), UnorderedElementsAre(id, snapshot, clone));
  EXPECT_OK(backend_->Delete(snapshot));
  EXPECT_TRUE(absl::IsNotFound(backend_->Locate(snapshot).status()));
  EXPECT_TRUE(absl::IsInternal(backend_->Copy({{"../precious", Image(id), kMiB}})));
}

// A snapshot is as large as its data; a volume can be filled.
TEST_F(ImageBackendTest, ACopyForAVolumeMustFit) {
  const std::string id = Created(kMiB);
  const std::uint64_t much = backend_->Capacity()->available + kTiB;
  EXPECT_TRUE(absl::IsOutOfRange(backend_->Copy({{NewVolumeId(), Image(id), much}})));
  EXPECT_THAT(contents_.copied(), IsEmpty());
  EXPECT_OK(backend_->Copy({{NewSnapshotId(), Image(id), kTiB}}));
}

TEST_F(ImageBackendTest, RemovesLeftoversOfCopiesUnlessAProgramIsCopying) {
  const std::string killed = NewSnapshotId(), copying = NewSnapshotId();
  ASSERT_OK(backend_->Reconcile());
  for (const std::string& id : {killed, copying}) std::ofstream(Copying(id)) << "half";
  std::ofstream(directory_ + "/volumes/notes.img.copying-0123abcd") << "not ours";
  UniqueFd copier = HoldImage(Copying(copying));
  EXPECT_THAT(*backend_->Reconcile(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(Copying(killed)));
  EXPECT_TRUE(std::filesystem::exists(Copying(copying)));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/volumes/notes.img.copying-0123abcd"));
  EXPECT_TRUE(absl::IsAborted(backend_->Delete(copying)));
  copier.reset();
  EXPECT_OK(backend_->Delete(copying));
  EXPECT_FALSE(std::filesystem::exists(Copying(copying)));
}

TEST_F(ImageBackendTest, ListsItsImagesAndNothingElse) {
  EXPECT_THAT(*backend_->Reconcile(), IsEmpty());  // before there is a directory
  EXPECT_OK(backend_->Reconcile());
  const std::string id = Created();
  std::ofstream(directory_ + "/volumes/notes.txt") << "not ours";
  std::ofstream(directory_ + "/volumes/vol-1.img") << "not ours";
  std::ofstream(Formatting(NewVolumeId())) << "half";
  EXPECT_THAT(*backend_->Reconcile(), ElementsAre(id));
}

TEST_F(ImageBackendTest, CapacityIsTheFreeSpaceOfTheFilesystem) {
  const absl::StatusOr<BackendCapacity> capacity = backend_->Capacity();
  ASSERT_OK(capacity);
  EXPECT_GT(capacity->available, 0u);
  EXPECT_LE(capacity->largest_volume, capacity->available);
  EXPECT_LE(capacity->largest_volume, kLargestVolumeBytes);
  EXPECT_EQ(capacity->largest_volume % kVolumeGranularity, 0u);
}

TEST_F(ImageBackendTest, ARequiredDirectoryIsNotCreatedAgain) {
  ImageBackend required(directory_ + "/volumes", loops_, contents_, IfMissing::kRefuse);
  EXPECT_OK(required.Create({NewVolumeId(), kMiB})) << "it was made at the start";
  std::filesystem::remove_all(directory_ + "/volumes");
  EXPECT_TRUE(absl::IsFailedPrecondition(required.Create({NewVolumeId(), kMiB})));
  EXPECT_TRUE(absl::IsFailedPrecondition(required.Copy({})));
  EXPECT_TRUE(absl::IsFailedPrecondition(required.Capacity().status()));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/volumes"));
}

}  // namespace
}  // namespace mooring::testing
