// A program of the system, such as mkfs, that waits until the test lets it begin. So a test decides what happens
// meanwhile, and no clock does.
//
//   std::future<absl::Status> stage;   // first, so that the end of a test that failed releases mkfs before it waits
//   HeldTool mkfs(*this, "mkfs.ext4");
//   RestartWithPath(mkfs.path());
//   …                                  // calls that need mkfs wait
//   mkfs.Release();
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {

class HeldTool {
 public:
  HeldTool(RpcTest& test, const std::string& program) : gate_(test.dir() / program + ".gate") {
    EXPECT_EQ(::mkfifo(gate_.c_str(), 0600), 0) << gate_;
    path_ = test.Wrapper(program, ": < " + gate_ + "\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nexec " + program + " \"$@\"");
  }
  HeldTool(const HeldTool&) = delete;
  HeldTool& operator=(const HeldTool&) = delete;
  ~HeldTool() { Release(); }  // also if the test failed

  const std::string& path() const { return path_; }  // a $PATH where the program waits

  // All that wait begin: opening a FIFO for reading waits for a writer (fifo(7)). Later ones find an empty file, and do
  // not wait.
  void Release() {
    if (writer_.ok()) return;
    writer_ = UniqueFd(::open(gate_.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(writer_.ok()) << gate_;
    const std::string open = gate_ + ".open";
    std::ofstream(open).close();
    EXPECT_EQ(::rename(open.c_str(), gate_.c_str()), 0) << gate_;
  }

 private:
  std::string gate_, path_;
  UniqueFd writer_;
};

}  // namespace mooring::testing
