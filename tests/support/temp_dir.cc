#include "tests/support/temp_dir.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tests/support/kernel.h"

namespace mooring::testing {

// Processes in several process namespaces may have the same number.
std::string TempDirPrefix() {
  struct stat space = {};
  if (::stat("/proc/self/ns/pid", &space) != 0) throw std::system_error(errno, std::generic_category(), "ns/pid");
  return fmt::format("mooring-test-{}-{:x}-", ::getpid(), space.st_ino % 0x10000);  // paths of sockets are short
}

TempDir::TempDir() {
  const std::filesystem::path base = std::filesystem::canonical(std::filesystem::temp_directory_path());
  std::string name = (base / (TempDirPrefix() + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
  path_ = name;
}

TempDir::~TempDir() {
  const std::vector<MountLine> left = MountsBelow(path_);
  for (const MountLine& line : left) ADD_FAILURE() << "left mounted: " << line.target << " (" << line.fs_type << ")";
  if (!left.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) ADD_FAILURE() << "cannot remove " << path_ << ": " << error.message();
}

}  // namespace mooring::testing
