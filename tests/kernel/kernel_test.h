// The base of the tests on the real kernel: a scratch directory and a mounter. The tools of the system make images,
// devices and mounts for it. It also includes the headers that most of these tests use.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"
#include "mounter/kernel/kernel_mounter.h"
#include "tests/kernel/mount/namespaces.h"
#include "tests/support/kernel.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {

using absl::StatusCode;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Clock = std::chrono::steady_clock;

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

class KernelTest : public ::testing::Test {
 protected:
  // Unmounts and detaches everything below the directory. A test itself checks what has to be gone.
  void TearDown() override;

  std::string Path(const std::string& name) const { return dir_ / name; }
  std::string Dir(const std::string& name) const;  // creates it and its parents, and returns its path
  std::string File(const std::string& name, const std::string& text = "") const;
  std::string Sparse(const std::string& name, std::uint64_t bytes) const;
  std::string Ext4Image(const std::string& name, std::uint64_t bytes = 32 * kMiB) const;
  std::string XfsImage(const std::string& name, std::uint64_t bytes = 300 * kMiB) const;
  std::string BtrfsImage(const std::string& name, std::uint64_t bytes = 128 * kMiB) const;
  std::string ImageOf(const std::string& fs_type, const std::string& name) const;

  // A directory with a mount of its own.
  std::string PrivateMount(const std::string& name) const;
  std::string SharedMount(const std::string& name) const;

  std::string Losetup(const std::string& arguments) const;  // "losetup --show -f <arguments>": the device

  // Puts a shell script in front of the programs on the PATH. The end of the test restores the PATH.
  void PutOnPath(const std::string& program, const std::string& script) const;
  void RestorePath() const { ::setenv("PATH", path_.c_str(), 1); }

  static int Tool(const std::string& shell_command) { return ::mooring::testing::Run(shell_command); }

  TempDir dir_;
  KernelMounter mounter_;

 private:
  const std::string path_ = ::getenv("PATH");
};

// FAILED_PRECONDITION, with this piece in its message.
inline auto Refused(const std::string& piece = "") { return FailsWith(absl::StatusCode::kFailedPrecondition, piece); }

BindRequest BindOf(const std::string& source, const std::string& target, const MountFlags& flags = {},
                   Propagation propagation = Propagation::kInherit);
BindRequest NodeBindOf(const std::string& device, const std::string& target);  // a device node onto a file
MountRequest MountOf(const std::string& source, const std::string& target, const std::string& fs_type = "ext4");
ImageCopy ImageCopyOf(const std::string& source, const std::string& destination, const std::string& renew = "");
UnmountRequest UnmountOf(const std::string& target, bool remove_target = false);
MountFlags ReadOnly();

bool IsClean(const std::string& image, const std::string& fs_type);  // asks the checker of the filesystem

// Whether statmount(2) and listmount(2) work: from Linux 6.8 on, if nothing blocks them.
bool HasStatMount();

std::string OptionsAt(const std::string& path);      // "ro,nosuid,relatime"; "nothing", or "a stack" of several mounts
std::string PropagationAt(const std::string& path);  // "shared:3 master:2"
std::string GroupAt(const std::string& path, const std::string& key);  // "3" for key "shared:", "" for none

struct stat StatOf(const std::string& path);  // lstat(2); zeroes if the path does not exist
bool Exists(const std::string& path);
std::uint64_t BytesAt(const std::string& path);  // size of the filesystem
std::vector<std::string> Entries(const std::string& directory);
bool Eventually(const std::function<bool()>& condition);  // within 30 s: only a failed test waits so long

// The system calls fail with `error` in this process and its children from now on, as under a seccomp profile.
bool FailSystemCalls(const std::vector<std::uint32_t>& numbers, unsigned error);

bool NoLoopOver(const std::string& path);  // waits: another process may have the device open
void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes);

}  // namespace mooring::testing
