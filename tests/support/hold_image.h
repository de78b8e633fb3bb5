// The lock that calls and programs hold while they work on an image, mounter/image/image.h.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/file/unique_fd.h"

namespace mooring::testing {

// Holds the lock until the descriptor is closed.
inline UniqueFd HoldImage(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = (off_t{1} << 62U) + 1;  // of all versions
  range.l_len = 1;
  EXPECT_EQ(::fcntl(file.get(), F_OFD_SETLK, &range), 0) << path << ", errno " << errno;
  return file;
}

}  // namespace mooring::testing
