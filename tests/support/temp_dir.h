// A temporary directory, removed with the object. If something is still mounted below it, it stays and the test fails,
// because removing through a mount would delete the mounted files.
#pragma once

#include <string>

namespace mooring::testing {

// The names of this process's temporary directories begin with it, and those of no other process.
std::string TempDirPrefix();

class TempDir {
 public:
  TempDir();  // below $TMPDIR or /tmp, a real path
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace mooring::testing
