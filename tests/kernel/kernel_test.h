// What the tests on the real kernel share: a scratch directory, a mounter, and the things that volumes are made of,
// made by the system's own tools and calls.
#ifndef MOORING_TESTS_KERNEL_KERNEL_TEST_H_
#define MOORING_TESTS_KERNEL_KERNEL_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mounter/kernel/kernel_mounter.h"
#include "tests/support/kernel.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

class KernelTest : public ::testing::Test {
 protected:
  // Whatever a test leaves mounted or attached below its directory ends here; what must be gone, a test says itself.
  void TearDown() override;

  std::string Path(const std::string& name) const { return dir_ / name; }
  std::string Dir(const std::string& name) const;  // made, parents too; its path
  std::string File(const std::string& name, const std::string& text = "") const;
  std::string Sparse(const std::string& name, std::uint64_t bytes) const;
  std::string Ext4Image(const std::string& name, std::uint64_t bytes = 32 * kMiB) const;
  std::string XfsImage(const std::string& name, std::uint64_t bytes = 300 * kMiB) const;
  std::string BtrfsImage(const std::string& name, std::uint64_t bytes = 128 * kMiB) const;
  std::string ImageOf(const std::string& fs_type, const std::string& name) const;  // one of these

  // Directories with a mount of their own, made with mount(2).
  std::string PrivateMount(const std::string& name) const;
  std::string SharedMount(const std::string& name) const;

  std::string Losetup(const std::string& arguments) const;  // "losetup --show -f <arguments>": the device
  static int Tool(const std::string& shell_command) {
    return ::mooring::testing::Run(shell_command);
  }  // gtest has a Run, too

  TempDir dir_;
  KernelMounter mounter_;
};

BindRequest BindOf(const std::string& source, const std::string& target, const MountFlags& flags = {},
                   Propagation propagation = Propagation::kInherit);
BindRequest NodeBindOf(const std::string& device, const std::string& target);  // a device node onto a file
MountRequest MountOf(const std::string& source, const std::string& target, const std::string& fs_type = "ext4");
UnmountRequest UnmountOf(const std::string& target, bool remove_target = false);
MountFlags ReadOnly();

bool IsClean(const std::string& image, const std::string& fs_type);  // so says its own program, which changes nothing

// Linux 6.8, or not blocked: statx(2)'s unique ids, and statmount(2) and listmount(2) to look them up with.
bool HasStatMount();

std::string OptionsAt(const std::string& path);      // "ro,nosuid,relatime"; "nothing" or "a stack" where not one mount
std::string PropagationAt(const std::string& path);  // "shared:3 master:2"
std::string GroupAt(const std::string& path, const std::string& key);  // "3" for key "shared:", "" for none

struct stat StatOf(const std::string& path);  // lstat(2); zeroes where there is nothing
bool Exists(const std::string& path);
std::vector<std::string> Entries(const std::string& directory);
bool Eventually(const std::function<bool()>& condition);  // within two seconds
bool NoLoopOver(const std::string& path);                 // eventually: a passer-by may hold a device open for a moment
void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_KERNEL_KERNEL_TEST_H_
