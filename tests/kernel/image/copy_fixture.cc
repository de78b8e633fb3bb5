#include <algorithm>
#include <cstdio>

#include "tests/kernel/image/copy_test.h"

namespace mooring::testing {

SequenceWriter::SequenceWriter(std::vector<std::string> directories)
    : directories_(std::move(directories)), thread_([this] { Run(); }) {}

void SequenceWriter::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void SequenceWriter::AwaitNext(std::uint64_t more) const {
  const std::uint64_t until = written_ + more;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (written_ < until && error_ == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(written_, until) << "the writer stands still";
}

void SequenceWriter::Run() {
  for (std::uint64_t number = 1; !stopping_; ++number) {
    const auto start = Clock::now();
    begun_ = number;
    if (!Write(number)) {
      error_ = errno;
      return;
    }
    written_ = number;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
    longest_ = std::max<std::int64_t>(longest_, took);
  }
}

bool SequenceWriter::Write(std::uint64_t number) {
  const std::string& directory = directories_[number % directories_.size()];
  const std::string text = fmt::format("{:020}", number);
  const UniqueFd fd(::open((directory + "/number").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.ok() || ::pwrite(fd.get(), text.data(), text.size(), 0) != 20) return false;
  if (number % 64 == 0 && ::fsync(fd.get()) != 0) return false;
  const std::string name = fmt::format("{}/churn-{}", directory, number % 60);
  const UniqueFd churn(::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string data((number % 7) * 5000, 'x');
  if (!churn.ok() || ::write(churn.get(), data.data(), data.size()) < 0) return false;
  if (number % 3 == 0 && ::rename(name.c_str(), (name + "-renamed").c_str()) != 0) return false;
  if (number % 5 == 0) ::unlink(name.c_str());
  return true;
}

void DeviceWriter::Run(const std::vector<std::string>& devices, Clock::time_point end) {
  std::vector<UniqueFd> open;
  for (const std::string& device : devices) open.emplace_back(::open(device.c_str(), O_WRONLY | O_DSYNC | O_CLOEXEC));
  for (std::uint64_t number = 1; number == 1 || (!stopping_ && Clock::now() < end); ++number) {
    for (const UniqueFd& fd : open) {
      for (const off_t offset : offsets_) EXPECT_EQ(::pwrite(fd.get(), &number, sizeof(number), offset), 8);
    }
    if (number == 1) begun_.count_down();
  }
}

std::uint64_t NumberIn(const std::string& directory) {
  const std::string text = ReadFile(directory + "/number");
  return std::strtoull(text.c_str(), nullptr, 10);
}

std::uint64_t AllocatedBytes(const std::string& path) {
  return static_cast<std::uint64_t>(StatOf(path).st_blocks) * 512;
}

void CopyTest::TearDown() {
  for (const MountLine& line : MountsBelow(dir_.path())) {
    if (line.target != Path("pool")) ::umount2(line.target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  }
  for (const LoopLine& loop : LoopsOver(Path("pool/"))) DetachLoop(loop);
  EXPECT_TRUE(NoLoopOver(Path("pool/")));
  KernelTest::TearDown();
}

std::string CopyTest::Made(const std::string& name, const std::string& fs_type, std::uint64_t bytes) const {
  if (fs_type == "btrfs") return BtrfsImage(name, bytes);
  return fs_type == "xfs" ? XfsImage(name, bytes) : Ext4Image(name, bytes);
}

void CopyTest::MakePool(const std::string& fs_type, std::uint64_t bytes) {
  const std::string image = Made("pool.img", fs_type, bytes);
  Dir("pool");
  ASSERT_EQ(Tool(fmt::format("mount -o loop {} {}", image, Path("pool"))), 0);
}

std::string CopyTest::Volume(const std::string& name, const std::string& fs_type, std::uint64_t bytes) {
  EXPECT_EQ(Made("pool/" + name + ".img", fs_type, bytes), Pooled(name));
  return Pooled(name);
}

std::string CopyTest::Mounted(const std::string& name, const std::string& fs_type) {
  Volume(name, fs_type);
  return MountCopy(name, fs_type);
}

std::string CopyTest::MountCopy(const std::string& name, const std::string& fs_type) {
  EXPECT_OK(mounter_.Mount(MountOf(Pooled(name), Path("at-" + name), fs_type)));
  return Path("at-" + name);
}

void CopyTest::Unmount(const std::string& name) {
  ASSERT_OK(mounter_.Unmount(UnmountOf(Path("at-" + name))));
  ASSERT_TRUE(NoLoopOver(Pooled(name)));
}

ImageCopy CopyTest::CopyOf(const std::string& source, const std::string& destination, const std::string& renew) const {
  return ImageCopyOf(Pooled(source), Pooled(destination), renew);
}

std::vector<std::string> CopyTest::FilesOfPool() const {
  std::vector<std::string> names = Entries(Path("pool"));
  std::erase(names, "lost+found");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mooring::testing
