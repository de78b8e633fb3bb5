// Shared by the tests of copies: a pool with its own filesystem, volumes that are mounted from it, and a writer.
#ifndef MOORING_TESTS_KERNEL_IMAGE_COPY_TEST_H_
#define MOORING_TESTS_KERNEL_IMAGE_COPY_TEST_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {

// Writes 1, 2, 3, … round-robin to the file "number" of several directories, each after the one before is written. In
// between it makes, renames and removes other files. Most of it is not synced, so that much happens in a moment: a
// freeze does that.
class SequenceWriter {
 public:
  explicit SequenceWriter(std::vector<std::string> directories);
  SequenceWriter(const SequenceWriter&) = delete;
  SequenceWriter& operator=(const SequenceWriter&) = delete;
  ~SequenceWriter() { Stop(); }

  void AwaitNext(std::uint64_t more = 200) const;
  std::uint64_t written() const { return written_; }  // so far for sure
  std::uint64_t begun() const { return begun_; }      // no later one is
  int error() const { return error_; }                // errno of what failed first, else 0
  std::chrono::milliseconds longest() const { return std::chrono::milliseconds(longest_); }  // of one number
  void Stop();

 private:
  void Run();
  bool Write(std::uint64_t number);

  const std::vector<std::string> directories_;
  std::atomic<std::uint64_t> begun_{0}, written_{0};
  std::atomic<std::int64_t> longest_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::uint64_t NumberIn(const std::string& directory);  // what the writer wrote there last; 0: nothing

class CopyTest : public KernelTest {
 protected:
  void TearDown() override;  // the pool last: what is attached from it keeps it

  // Mounted at "pool": xfs and btrfs can share extents, ext4 cannot.
  void MakePool(const std::string& fs_type, std::uint64_t bytes = 2048 * kMiB);

  std::string Pooled(const std::string& name) const { return Path("pool/" + name + ".img"); }
  std::string Volume(const std::string& name, const std::string& fs_type, std::uint64_t bytes = 400 * kMiB);
  std::string Mounted(const std::string& name, const std::string& fs_type);  // a volume; where it is mounted
  std::string MountCopy(const std::string& name, const std::string& fs_type);
  void Unmount(const std::string& name);  // and its loop device is gone

  ImageCopy CopyOf(const std::string& source, const std::string& destination, const std::string& renew = "") const;
  std::vector<std::string> FilesOfPool() const;  // sorted

 private:
  std::string Made(const std::string& name, const std::string& fs_type, std::uint64_t bytes) const;
};

std::uint64_t AllocatedBytes(const std::string& path);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_KERNEL_IMAGE_COPY_TEST_H_
