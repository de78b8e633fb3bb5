// A directory for one test, which is removed with the object.
#ifndef MOORING_TESTS_UNIT_CLI_OWN_DIRECTORY_H_
#define MOORING_TESTS_UNIT_CLI_OWN_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace mooring::cli {

class OwnDirectory {
 public:
  OwnDirectory() : path_((std::filesystem::temp_directory_path() / "mooring-cli-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
  }
  ~OwnDirectory() { std::filesystem::remove_all(path_); }
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_OWN_DIRECTORY_H_
