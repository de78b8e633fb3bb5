// Shared by the tests of copies: a pool with its own filesystem, volumes that are mounted from it, and a writer.
#pragma once

#include <latch>
#include <utility>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {

// Writes 1, 2, 3, … to the file "number" of several directories in turn. In between it makes, renames and removes other
// files. It syncs little, so that a freeze has much to write.
class SequenceWriter {
 public:
  explicit SequenceWriter(std::vector<std::string> directories);
  SequenceWriter(const SequenceWriter&) = delete;
  SequenceWriter& operator=(const SequenceWriter&) = delete;
  ~SequenceWriter() { Stop(); }

  void AwaitNext(std::uint64_t more = 200) const;
  std::uint64_t written() const { return written_; }  // the last number that is written
  std::uint64_t begun() const { return begun_; }      // the number that is being written
  int error() const { return error_; }                // errno of the first failure, else 0
  std::chrono::milliseconds longest() const { return std::chrono::milliseconds(longest_); }  // time for one number
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

std::uint64_t NumberIn(const std::string& directory);  // the writer's last number; 0: none

// Writes to block devices in turn. Each write is on disk before the next begins. All places are written once when the
// constructor returns.
class DeviceWriter {
 public:
  DeviceWriter(std::vector<std::string> devices, std::chrono::milliseconds lasts, std::vector<off_t> offsets = {0})
      : offsets_(std::move(offsets)),
        thread_([this, devices = std::move(devices), lasts] { Run(devices, Clock::now() + lasts); }) {
    begun_.wait();
  }
  DeviceWriter(const DeviceWriter&) = delete;
  DeviceWriter& operator=(const DeviceWriter&) = delete;
  ~DeviceWriter() {
    stopping_ = true;
    thread_.join();
  }

 private:
  void Run(const std::vector<std::string>& devices, Clock::time_point end);

  const std::vector<off_t> offsets_;
  std::latch begun_{1};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class CopyTest : public KernelTest {
 protected:
  void TearDown() override;  // unmounts the pool last, when nothing uses it

  // Mounted at "pool": xfs and btrfs can share extents, ext4 cannot.
  void MakePool(const std::string& fs_type, std::uint64_t bytes = 2048 * kMiB);

  std::string Pooled(const std::string& name) const { return Path("pool/" + name + ".img"); }
  std::string Volume(const std::string& name, const std::string& fs_type, std::uint64_t bytes = 400 * kMiB);
  std::string Mounted(const std::string& name, const std::string& fs_type);  // a mounted volume: its path
  std::string MountCopy(const std::string& name, const std::string& fs_type);
  void Unmount(const std::string& name);  // checks that the loop device is gone

  ImageCopy CopyOf(const std::string& source, const std::string& destination, const std::string& renew = "") const;
  std::vector<std::string> FilesOfPool() const;  // sorted

 private:
  std::string Made(const std::string& name, const std::string& fs_type, std::uint64_t bytes) const;
};

std::uint64_t AllocatedBytes(const std::string& path);

}  // namespace mooring::testing
