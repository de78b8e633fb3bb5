#include "tests/rpc/orchestrators/fs_group.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileBits = 0660, kDirectoryBits = S_ISGID | 0770;

void GiveOne(const std::string& path, gid_t group) {
  struct stat status = {};
  ASSERT_EQ(::lstat(path.c_str(), &status), 0) << path;
  ASSERT_EQ(::lchown(path.c_str(), static_cast<uid_t>(-1), group), 0) << path;
  if (S_ISLNK(status.st_mode)) return;
  const mode_t bits = S_ISDIR(status.st_mode) ? kDirectoryBits : kFileBits;
  ASSERT_EQ(::chmod(path.c_str(), (status.st_mode & 07777) | bits), 0) << path;
}

bool RootMatches(const std::string& root, gid_t group) {
  struct stat status = {};
  if (::stat(root.c_str(), &status) != 0) return false;
  return status.st_gid == group && (status.st_mode & kDirectoryBits) == kDirectoryBits;
}

}  // namespace

void GiveToGroup(const std::string& root, const FsGroup& wanted) {
  if (wanted.policy == FsGroup::ChangePolicy::kOnRootMismatch && RootMatches(root, wanted.group)) return;
  for (const auto& entry : fs::recursive_directory_iterator(root)) GiveOne(entry.path(), wanted.group);
  GiveOne(root, wanted.group);  // last, as kubelet does it, so that an interrupted walk is repeated
}

}  // namespace mooring::testing
