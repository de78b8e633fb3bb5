// Puts a directory over /sbin, with links to all that is there, for programs mount.TYPE of a test.
#pragma once

#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/kernel/kernel_test.h"

namespace mooring::testing {

class Sbin {
 public:
  // In the directory of the test.
  explicit Sbin(const std::string& directory) : directory_(directory) {
    std::filesystem::create_directory(directory_ + "/sbin");
    std::filesystem::create_directory(directory_ + "/system");
    const std::string system = directory_ + "/system";
    EXPECT_EQ(::mount(sbin_.c_str(), system.c_str(), nullptr, MS_BIND, nullptr), 0);
    // Under a shared root the mount below would cover it, too.
    EXPECT_EQ(::mount(nullptr, system.c_str(), nullptr, MS_PRIVATE, nullptr), 0);
    for (const std::string& name : Entries(system)) {
      std::filesystem::create_symlink(system + "/" + name, directory_ + "/sbin/" + name);
    }
    EXPECT_EQ(::mount((directory_ + "/sbin").c_str(), sbin_.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  Sbin(const Sbin&) = delete;
  Sbin& operator=(const Sbin&) = delete;
  ~Sbin() { EXPECT_EQ(::umount2(sbin_.c_str(), MNT_DETACH), 0); }

  // The body gets the device as $1 and the mount point as $2. $DIR is the directory of the test.
  void Add(const std::string& name, const std::string& body) const {
    const std::string path = directory_ + "/sbin/" + name;
    std::ofstream(path) << "#!/bin/sh\nDIR=" + directory_ + "\n" + body + "\n";
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }

 private:
  const std::string directory_;
  const std::string sbin_ = std::filesystem::canonical("/sbin");
};

}  // namespace mooring::testing
